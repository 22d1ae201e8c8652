#include "kernels/sample/sample.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "kernels/backend.h"
#include "kernels/counters.h"
#include "kernels/kernel_testing.h"

namespace pome::kernels {
namespace {

using testing::array_of;
using testing::int_array;
using testing::normal_array;
using testing::normal_floats;
using testing::relative_error;
using testing::same_bits;
using testing::values_of;

struct Draw {
  float temperature = 1.0f;
  int32_t top_k = -1;
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 1;
  int32_t index = 0;
};

SampleRows rows_of(const std::vector<Draw>& draws) {
  std::vector<float> temperature, top_p, min_p;
  std::vector<int32_t> top_k, index;
  std::vector<uint32_t> seed;
  for (const Draw& d : draws) {
    temperature.push_back(d.temperature);
    top_k.push_back(d.top_k);
    top_p.push_back(d.top_p);
    min_p.push_back(d.min_p);
    seed.push_back(static_cast<uint32_t>(d.seed));
    seed.push_back(static_cast<uint32_t>(d.seed >> 32));
    index.push_back(d.index);
  }
  const auto count = static_cast<int>(draws.size());
  return {array_of(temperature, {count}),
          int_array(top_k, {count}),
          array_of(top_p, {count}),
          array_of(min_p, {count}),
          mx::array(seed.begin(), {count, 2}, mx::uint32),
          int_array(index, {count})};
}

std::vector<int32_t> tokens_of(const std::vector<float>& logits, const std::vector<Draw>& draws) {
  const auto count = static_cast<int>(draws.size());
  const auto vocabulary = static_cast<int>(logits.size()) / count;
  return values_of<int32_t>(sample(array_of(logits, {count, vocabulary}), rows_of(draws)));
}

// One row of logits drawn from `times` times.
std::vector<int32_t> many(const std::vector<float>& row, Draw draw, int times) {
  std::vector<float> logits;
  std::vector<Draw> draws;
  for (int i = 0; i < times; ++i) {
    logits.insert(logits.end(), row.begin(), row.end());
    draw.index = i;
    draws.push_back(draw);
  }
  return tokens_of(logits, draws);
}

// Tokens that the filters leave, by the contract's own words.
std::set<int32_t> kept_by_contract(const std::vector<float>& row, const Draw& draw) {
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
  if (draw.top_k > 0 && draw.top_k < static_cast<int32_t>(order.size())) {
    order.resize(draw.top_k);
  }
  std::vector<double> p;
  for (const int32_t id : order) {
    p.push_back(std::exp(double{row[id] - row[order[0]]} / double{draw.temperature}));
  }
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  std::set<int32_t> kept;
  double mass = 0.0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool in_mass = draw.top_p >= 1.0f || mass < double{draw.top_p} * total;
    if ((in_mass && p[i] >= double{draw.min_p}) || i == 0) {
      kept.insert(order[i]);
    }
    mass += p[i];
  }
  return kept;
}

TEST(Sample, TakesTheLargestLogitAndTheLowestIdAmongEqualsWhenGreedy) {
  testing::for_each_target([](const std::string& target) {
    for (const int vocabulary : {1, 2, 15, 16, 17, 100, 50001}) {
      std::vector<float> row(vocabulary, -1.0f);
      row[vocabulary / 2] = 3.0f;
      row[vocabulary - 1] = 3.0f;
      EXPECT_EQ(tokens_of(row, {{.temperature = 0.0f}})[0], vocabulary / 2) << target;
      EXPECT_EQ(tokens_of(row, {{.top_k = 1}})[0], vocabulary / 2) << target;
    }
  });
}

TEST(Sample, NeverDrawsNotANumberOrMinusInfinity) {
  std::vector<float> row(40, std::nanf(""));
  row[3] = -std::numeric_limits<float>::infinity();
  row[17] = -2.0f;
  row[33] = -2.5f;
  for (const float temperature : {0.0f, 1.0f}) {
    for (const int32_t token : many(row, {.temperature = temperature}, 50)) {
      EXPECT_TRUE(token == 17 || token == 33);
    }
  }
  EXPECT_EQ(many(std::vector<float>(20, row[3]), {}, 1)[0], 0);
  EXPECT_EQ(many(std::vector<float>(20, row[0]), {}, 1)[0], 0);
}

TEST(Sample, KeepsExactlyTheTokensThatTheFiltersLeave) {
  const std::vector<Draw> filters{{.top_k = 5},
                                  {.top_k = 300},
                                  {.top_p = 0.6f},
                                  {.top_p = 0.95f},
                                  {.min_p = 0.1f},
                                  {.top_k = 20, .top_p = 0.7f},
                                  {.top_p = 0.9f, .min_p = 0.05f},
                                  {.temperature = 0.5f, .top_p = 0.8f},
                                  {.temperature = 2.0f, .top_k = 50, .min_p = 0.02f}};
  testing::for_each_target([&](const std::string& target) {
    std::vector<float> row = normal_floats(400, 3, 2.0f);
    for (const Draw& filter : filters) {
      const std::set<int32_t> allowed = kept_by_contract(row, filter);
      std::set<int32_t> seen;
      for (const int32_t token : many(row, filter, 3000)) {
        EXPECT_EQ(allowed.count(token), 1u) << target << ", token " << token;
        seen.insert(token);
      }
      EXPECT_GE(seen.size() * 10, std::min<size_t>(allowed.size(), 40) * 8) << target;
    }
  });
}

TEST(Sample, CutsTiesAtTheBorderByLowerId) {
  const std::vector<float> row(100, 1.5f);
  for (const int32_t token : many(row, {.top_k = 7}, 200)) {
    EXPECT_LT(token, 7);
  }
  for (const int32_t token : many(row, {.top_p = 0.095f}, 200)) {
    EXPECT_LT(token, 10);
  }
}

TEST(Sample, DrawsWithTheProbabilitiesOfTheSoftmax) {
  const std::vector<float> row{0.0f, 1.0f, 2.0f, -1.0f, 0.5f};
  constexpr int kTimes = 20000;
  std::map<int32_t, int> counts;
  for (const int32_t token : many(row, {.temperature = 0.8f, .seed = 42}, kTimes)) {
    ++counts[token];
  }
  double total = 0.0;
  for (const float logit : row) {
    total += std::exp(double{logit} / 0.8);
  }
  double chi_squared = 0.0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double expected = kTimes * std::exp(double{row[i]} / 0.8) / total;
    const double off = counts[static_cast<int32_t>(i)] - expected;
    chi_squared += off * off / expected;
  }
  EXPECT_LT(chi_squared, 18.5);  // four degrees of freedom, p = 0.001
}

TEST(Sample, GivesARowTheSameTokenAloneInACrowdAndForEveryNumberOfThreads) {
  constexpr int kVocabulary = 3001;
  constexpr int kRows = 40;
  const std::vector<float> logits = normal_floats(kRows * kVocabulary, 5, 2.0f);
  std::vector<Draw> draws;
  for (int r = 0; r < kRows; ++r) {
    draws.push_back({.temperature = 0.5f + 0.05f * static_cast<float>(r % 11),
                     .top_k = r % 3 == 0 ? 40 : -1,
                     .top_p = r % 4 == 0 ? 0.9f : 1.0f,
                     .min_p = r % 5 == 0 ? 0.01f : 0.0f,
                     .seed = 0x123456789abcdefULL * static_cast<uint64_t>(r + 1),
                     .index = r * 7});
  }
  const std::vector<int32_t> together = tokens_of(logits, draws);
  for (int r = 0; r < kRows; ++r) {
    const std::vector<float> row(logits.begin() + r * kVocabulary,
                                 logits.begin() + (r + 1) * kVocabulary);
    EXPECT_EQ(tokens_of(row, {draws[r]})[0], together[r]) << r;
  }
  testing::for_each_thread_count(
      [&](int threads) { EXPECT_EQ(tokens_of(logits, draws), together) << threads; });
}

TEST(Sample, DrawsTheTokenOfTheDocumentedHash) {
  const std::vector<float> row = normal_floats(1000, 6);
  for (int index = 0; index < 20; ++index) {
    const uint64_t seed = 0xfeedfacecafebeefULL + static_cast<uint64_t>(index);
    int32_t best = 0;
    double best_score = -1e30;
    for (int32_t id = 0; id < 1000; ++id) {
      const double u =
          (double{static_cast<double>(noise_bits(seed, index, id))} + 0.5) / 4294967296.0;
      const double score = double{row[id]} / 0.7 - std::log(-std::log1p(-u));
      if (score > best_score) {
        best_score = score;
        best = id;
      }
    }
    EXPECT_EQ(tokens_of(row, {{.temperature = 0.7f, .seed = seed, .index = index}})[0], best);
  }
}

TEST(Sample, AgreesWithItsTwin) {
  constexpr int kVocabulary = 777;
  const std::vector<float> logits = normal_floats(64 * kVocabulary, 7, 2.0f);
  std::vector<Draw> draws;
  for (int r = 0; r < 64; ++r) {
    draws.push_back({.temperature = r % 8 == 0 ? 0.0f : 0.9f,
                     .top_k = r % 2 == 0 ? 30 : -1,
                     .top_p = r % 3 == 0 ? 0.8f : 1.0f,
                     .min_p = r % 5 == 0 ? 0.05f : 0.0f,
                     .seed = static_cast<uint64_t>(r),
                     .index = r});
  }
  const mx::array array = array_of(logits, {64, kVocabulary});
  const uint64_t before = variant_runs("sample/sample");
  const auto own = values_of<int32_t>(sample(array, rows_of(draws)));
  EXPECT_EQ(variant_runs("sample/sample"), before + 1);
  EXPECT_EQ(own, values_of<int32_t>(reference::sample(array, rows_of(draws))));
  set_own_kernels_enabled(false);
  EXPECT_EQ(own, values_of<int32_t>(sample(array, rows_of(draws))));
  set_own_kernels_enabled(true);
}

TEST(Sample, RefusesParametersForAnotherNumberOfRows) {
  const SampleRows rows = rows_of({{}, {}});
  EXPECT_THROW(sample(normal_array({3, 8}, 1), rows), std::invalid_argument);
  EXPECT_THROW(sample(normal_array({16}, 1), rows), std::invalid_argument);
}

TEST(RowLogsumexp, AgreesWithALoopForLargeAndSmallNumbers) {
  testing::for_each_target([](const std::string& target) {
    for (const int vocabulary : {1, 17, 4099, 50000}) {
      std::vector<float> row = normal_floats(vocabulary, 8, 5.0f);
      for (const float shift : {0.0f, 1000.0f, -1000.0f}) {
        std::vector<float> shifted;
        double total = 0.0;
        for (const float x : row) {
          shifted.push_back(x + shift);
          total += std::exp(double{x + shift} - double{shift});
        }
        const float expected = static_cast<float>(std::log(total) + double{shift});
        EXPECT_NEAR(values_of(row_logsumexp(array_of(shifted, {1, vocabulary})))[0], expected,
                    2e-6f * std::abs(expected) + 2e-6f)
            << target;
      }
    }
  });
}

TEST(LogprobsTopK, AreTheBestInOrderWithTiesByLowerId) {
  testing::for_each_target([](const std::string& target) {
    std::vector<float> logits = normal_floats(2 * 1003, 9);
    logits[1003 + 700] = 9.0f;
    logits[1003 + 30] = 9.0f;
    const mx::array array = array_of(logits, {2, 1003});
    for (const int k : {1, 2, 20, 1003}) {
      const TopLogprobs own = logprobs_top_k(array, k);
      const TopLogprobs twin = reference::logprobs_top_k(array, k);
      EXPECT_EQ(values_of<int32_t>(own.ids), values_of<int32_t>(twin.ids)) << target << ", " << k;
      EXPECT_LT(relative_error(values_of(own.values), values_of(twin.values)), 1e-6);
    }
    EXPECT_EQ(values_of<int32_t>(logprobs_top_k(array, 2).ids)[2], 30);
  });
  EXPECT_THROW(logprobs_top_k(normal_array({1, 5}, 1), 0), std::invalid_argument);
  EXPECT_THROW(logprobs_top_k(normal_array({1, 5}, 1), 6), std::invalid_argument);
}

TEST(LogprobsAt, IsTheLogSoftmaxOfOneToken) {
  const mx::array logits = normal_array({3, 50}, 10);
  const std::vector<float> all = values_of(logits - mx::logsumexp(logits, 1, true));
  const std::vector<float> at = values_of(logprobs_at(logits, int_array({0, 49, 7}, {3})));
  EXPECT_NEAR(at[0], all[0], 1e-5f);
  EXPECT_NEAR(at[1], all[99], 1e-5f);
  EXPECT_NEAR(at[2], all[107], 1e-5f);
}

}  // namespace
}  // namespace pome::kernels
