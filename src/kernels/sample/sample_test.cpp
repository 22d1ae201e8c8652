#include "kernels/sample/sample.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "kernels/backend.h"
#include "kernels/counters.h"
#include "kernels/kernel_testing.h"

namespace pome::kernels {
namespace {

using testing::array_of;
using testing::normal_array;
using testing::normal_floats;
using testing::values_of;

using Draw = SampleRow;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Drawn {
  std::vector<int32_t> tokens;
  std::vector<int32_t> broken;
};

// Row r of the logits for draw r.
std::vector<Draw> in_order(std::vector<Draw> draws) {
  for (size_t r = 0; r < draws.size(); ++r) {
    draws[r].place = static_cast<int32_t>(r);
  }
  return draws;
}

Drawn run(const mx::array& logits, const std::vector<Draw>& draws) {
  const Sampled sampled = sample(logits, draws);
  mx::eval(sampled.tokens, sampled.broken);
  return {values_of<int32_t>(sampled.tokens), values_of<int32_t>(sampled.broken)};
}

std::vector<int32_t> tokens_of(const std::vector<float>& logits, const std::vector<Draw>& draws) {
  const auto count = static_cast<int>(draws.size());
  const auto vocabulary = static_cast<int>(logits.size()) / count;
  return run(array_of(logits, {count, vocabulary}), in_order(draws)).tokens;
}

// One row of logits drawn from `times` times.
std::vector<int32_t> many(const std::vector<float>& row, Draw draw, int times) {
  std::vector<float> logits;
  std::vector<Draw> draws;
  for (int i = 0; i < times; ++i) {
    logits.insert(logits.end(), row.begin(), row.end());
    draw.output_index = i;
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

TEST(Sample, NeverDrawsMinusInfinity) {
  std::vector<float> row(40, -kInfinity);
  row[17] = -2.0f;
  row[33] = -2.5f;
  for (const Draw& draw : {Draw{.temperature = 0.0f}, Draw{}, Draw{.top_k = 5},
                           Draw{.top_p = 0.99f}, Draw{.min_p = 0.01f}}) {
    for (const int32_t token : many(row, draw, 50)) {
      EXPECT_TRUE(token == 17 || token == 33) << token;
    }
  }
}

TEST(Sample, MarksARowWithoutAFiniteLargestAndLeavesItsNeighboursAlone) {
  constexpr int kVocabulary = 9001;
  const std::vector<Draw> draws = in_order({{.temperature = 0.0f},
                                            {},
                                            {.top_k = 40},
                                            {.top_p = 0.9f},
                                            {.temperature = 0.5f, .min_p = 0.05f}});
  const std::vector<float> good = normal_floats(5 * kVocabulary, 12);
  const Drawn expected = run(array_of(good, {5, kVocabulary}), draws);
  EXPECT_EQ(expected.broken, std::vector<int32_t>(5, 0));
  testing::for_each_target([&](const std::string& target) {
    for (const float fault : {std::nanf(""), kInfinity}) {
      for (const int place : {0, 4000, 8191, 8192, 9000}) {
        for (int bad = 0; bad < 5; ++bad) {
          std::vector<float> logits = good;
          logits[static_cast<size_t>(bad * kVocabulary + place)] = fault;
          const Drawn drawn = run(array_of(logits, {5, kVocabulary}), draws);
          for (int r = 0; r < 5; ++r) {
            EXPECT_EQ(drawn.broken[r], r == bad ? 1 : 0) << target << place;
            EXPECT_EQ(drawn.tokens[r], r == bad ? 0 : expected.tokens[r]) << target << place;
          }
        }
      }
    }
  });
  EXPECT_EQ(run(array_of(std::vector<float>(20, -kInfinity), {1, 20}), {{}}).broken[0], 1);
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
    EXPECT_EQ(tokens_of(row, {{.temperature = 0.7f, .seed = seed, .output_index = index}})[0],
              best);
  }
}

// The contract word by word, in doubles and with a full sort.
int32_t token_by_contract(std::vector<float> row, const Draw& draw) {
  for (const LogitEdit& edit : draw.edits) {
    float& x = row[edit.token];
    x = (x > 0.0f ? x / edit.repetition : x * edit.repetition) + edit.add;
  }
  const auto largest = std::max_element(row.begin(), row.end());
  if (draw.temperature == 0.0f || draw.top_k == 1) {
    return static_cast<int32_t>(largest - row.begin());
  }
  int32_t best = -1;
  double best_score = 0.0;
  for (const int32_t id : kept_by_contract(row, draw)) {
    const double u =
        (double{static_cast<double>(noise_bits(draw.seed, draw.output_index, id))} + 0.5) /
        4294967296.0;
    const double score =
        (double{row[id]} - double{*largest}) / double{draw.temperature} - std::log(-std::log1p(-u));
    if (best < 0 || score > best_score) {
      best_score = score;
      best = id;
    }
  }
  return best;
}

std::vector<LogitEdit> made_up_edits(int vocabulary, uint32_t seed) {
  std::vector<LogitEdit> edits;
  for (int token = static_cast<int>(seed % 5); token < vocabulary; token += 1 + token / 3) {
    const int kind = token % 4;
    edits.push_back({.token = token,
                     .repetition = kind == 0 ? 1.3f : 1.0f,
                     .add = kind == 1   ? -kInfinity
                            : kind == 2 ? 2.5f
                                        : -0.75f});
  }
  return edits;
}

// Rows of every kind, so that none stands beside its like.
std::vector<Draw> mixed_draws(int count, int vocabulary) {
  const std::vector<Draw> kinds{{.temperature = 0.0f},
                                {.temperature = 0.8f},
                                {.top_k = 40},
                                {.top_k = 1},
                                {.top_k = 700, .top_p = 0.8f},
                                {.top_p = 0.9f},
                                {.temperature = 3.0f, .top_p = 0.99f},
                                {.min_p = 0.05f},
                                {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f, .min_p = 0.1f},
                                {.temperature = 1.5f, .top_p = 0.97f, .min_p = 0.01f}};
  std::vector<Draw> draws;
  for (int r = 0; r < count; ++r) {
    Draw draw = kinds[static_cast<size_t>(r) % kinds.size()];
    draw.seed = 0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(r + 1);
    draw.output_index = r * 31;
    if (r % 3 == 1) {
      draw.edits = made_up_edits(vocabulary, static_cast<uint32_t>(r));
    }
    draws.push_back(draw);
  }
  return draws;
}

std::vector<float> row_of(const std::vector<float>& logits, size_t r, int vocabulary) {
  const auto begin = logits.begin() + static_cast<int64_t>(r) * vocabulary;
  return {begin, begin + vocabulary};
}

TEST(Sample, KeepsTheContractForEveryMixOfRowsAroundTheEdgesOfBlocks) {
  for (const int vocabulary : {1, 63, 65, 8191, 8192, 8193, 20000}) {
    const std::vector<Draw> draws = in_order(mixed_draws(40, vocabulary));
    const std::vector<float> logits =
        normal_floats(40U * static_cast<size_t>(vocabulary), 21, 3.0f);
    const Drawn drawn = run(array_of(logits, {40, vocabulary}), draws);
    for (size_t r = 0; r < draws.size(); ++r) {
      EXPECT_EQ(drawn.tokens[r], token_by_contract(row_of(logits, r, vocabulary), draws[r]))
          << vocabulary << ", row " << r;
    }
  }
}

TEST(Sample, KeepsTheContractWhereManyTokensAreLeft) {
  constexpr int kVocabulary = 20000;
  for (const float spread : {0.0f, 0.01f, 0.5f}) {
    const std::vector<float> row = normal_floats(kVocabulary, 22, spread);
    for (const Draw& draw : {Draw{.top_p = 0.5f, .seed = 5}, Draw{.top_p = 0.9999f, .seed = 6},
                             Draw{.top_k = 5000, .seed = 7}, Draw{.top_k = 19999, .seed = 8},
                             Draw{.min_p = 0.3f, .seed = 9}, Draw{.seed = 10},
                             Draw{.temperature = 100.0f, .top_p = 0.7f, .seed = 11}}) {
      EXPECT_EQ(tokens_of(row, {draw})[0], token_by_contract(row, draw))
          << spread << ", seed " << draw.seed;
    }
  }
}

TEST(Sample, TakesTheBestAtTheSmallestTemperatures) {
  const std::vector<float> row = normal_floats(9000, 23);
  const auto best = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  for (const float temperature : {1e-45f, 1e-38f, 1e-6f}) {
    EXPECT_EQ(tokens_of(row, {{.temperature = temperature}})[0], best);
    EXPECT_EQ(tokens_of(row, {{.temperature = temperature, .top_p = 0.5f}})[0], best);
    EXPECT_EQ(tokens_of(row, {{.temperature = temperature, .min_p = 0.5f}})[0], best);
  }
}

TEST(Sample, ARowIsTheSameInEveryOrderAloneAndForEveryNumberOfThreads) {
  constexpr int kVocabulary = 17001;
  constexpr int kRows = 30;
  const mx::array logits = normal_array({kRows, kVocabulary}, 24, 3.0f);
  const std::vector<Draw> draws = in_order(mixed_draws(kRows, kVocabulary));
  const uint64_t by_row = variant_runs("sample/sample_by_row");
  const uint64_t by_block = variant_runs("sample/sample_by_block");
  const std::vector<int32_t> expected = run(logits, draws).tokens;
  EXPECT_EQ(variant_runs("sample/sample_by_row"), by_row + 1);
  testing::for_each_thread_count([&](int threads) {
    std::mt19937 random(static_cast<uint32_t>(threads));
    for (const size_t count : {size_t{1}, size_t{3}, size_t{7}, size_t{8}, size_t{30}}) {
      std::vector<Draw> some = draws;
      std::shuffle(some.begin(), some.end(), random);
      some.resize(count);
      const std::vector<int32_t> tokens = run(logits, some).tokens;
      for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ(tokens[i], expected[static_cast<size_t>(some[i].place)])
            << threads << " threads, " << count << " rows";
      }
    }
  });
  EXPECT_GT(variant_runs("sample/sample_by_block"), by_block);
}

TEST(Sample, AgreesWithItsTwin) {
  constexpr int kVocabulary = 777;
  const mx::array logits = normal_array({64, kVocabulary}, 7, 2.0f);
  const std::vector<Draw> draws = in_order(mixed_draws(64, kVocabulary));
  const Drawn own = run(logits, draws);
  const Sampled twin = reference::sample(logits, draws);
  EXPECT_EQ(own.tokens, values_of<int32_t>(twin.tokens));
  EXPECT_EQ(own.broken, values_of<int32_t>(twin.broken));
  set_own_kernels_enabled(false);
  EXPECT_EQ(own.tokens, run(logits, draws).tokens);
  std::vector<float> faulty = values_of(logits);
  faulty[5] = std::nanf("");
  const Drawn plain = run(array_of(faulty, {64, kVocabulary}), draws);
  set_own_kernels_enabled(true);
  const Drawn again = run(array_of(faulty, {64, kVocabulary}), draws);
  EXPECT_EQ(plain.tokens, again.tokens);
  EXPECT_EQ(plain.broken, again.broken);
  EXPECT_EQ(plain.broken[0], 1);
}

TEST(Sample, TakesHalfPrecisionLogits) {
  const mx::array logits = mx::astype(normal_array({3, 100}, 8), mx::float16);
  const std::vector<Draw> draws = in_order({{}, {.temperature = 0.0f}, {.top_k = 4}});
  EXPECT_EQ(run(logits, draws).tokens, run(mx::astype(logits, mx::float32), draws).tokens);
}

TEST(Sample, RefusesRowsThatAreNotThere) {
  const mx::array logits = normal_array({3, 8}, 1);
  EXPECT_THROW(sample(logits, {}), std::invalid_argument);
  EXPECT_THROW(sample(normal_array({16}, 1), {{}}), std::invalid_argument);
  EXPECT_THROW(sample(logits, {{.place = 3}}), std::invalid_argument);
  EXPECT_THROW(sample(logits, {{.place = -1}}), std::invalid_argument);
  EXPECT_THROW(sample(logits, {{.edits = {{.token = 8}}}}), std::invalid_argument);
  EXPECT_THROW(sample(logits, {{.edits = {{.token = 2}, {.token = 2}}}}), std::invalid_argument);
  EXPECT_THROW(sample(logits, {{.edits = {{.token = 2}, {.token = 1}}}}), std::invalid_argument);
}

}  // namespace
}  // namespace pome::kernels
