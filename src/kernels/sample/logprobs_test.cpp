#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/backend.h"
#include "kernels/counters.h"
#include "kernels/kernel_testing.h"
#include "kernels/sample/sample.h"

namespace pome::kernels {
namespace {

using testing::array_of;
using testing::int_array;
using testing::normal_array;
using testing::normal_floats;
using testing::same_bits;
using testing::values_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Answer {
  std::vector<float> values;
  std::vector<int32_t> ids;
};

Answer run(const mx::array& logits, const std::vector<int32_t>& tokens, const LogprobRows& rows) {
  const Logprobs out = logprobs(logits, int_array(tokens, {static_cast<int>(tokens.size())}), rows);
  mx::eval(out.values, out.ids);
  return {values_of(out.values), values_of<int32_t>(out.ids)};
}

double log_total(const std::vector<float>& row) {
  const double largest = double{*std::max_element(row.begin(), row.end())};
  double total = 0.0;
  for (const float x : row) {
    total += std::exp(double{x} - largest);
  }
  return largest + std::log(total);
}

std::vector<int32_t> best_of(const std::vector<float>& row, size_t k) {
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
  order.resize(k);
  return order;
}

TEST(Logprobs, AreTheLogSoftmaxOfLargeAndSmallNumbers) {
  testing::for_each_target([](const std::string& target) {
    for (const int vocabulary : {1, 17, 4099, 8192, 8193, 50000}) {
      for (const float shift : {0.0f, 1000.0f, -1000.0f}) {
        std::vector<float> row = normal_floats(static_cast<size_t>(vocabulary), 8, 5.0f);
        for (float& x : row) {
          x += shift;
        }
        const int32_t token = vocabulary / 2;
        const double expected = double{row[static_cast<size_t>(token)]} - log_total(row);
        const Answer answer =
            run(array_of(row, {1, vocabulary}), {token}, {.rows = {{.place = 0}}});
        EXPECT_NEAR(answer.values[0], expected, 2e-6 * (std::abs(shift) + 10.0)) << target;
      }
    }
  });
}

TEST(Logprobs, ListTheBestInOrderWithTiesByLowerId) {
  testing::for_each_target([](const std::string& target) {
    for (const int vocabulary : {64, 1003, 8193, 30000}) {
      std::vector<float> row = normal_floats(static_cast<size_t>(vocabulary), 9);
      row[static_cast<size_t>(vocabulary - 1)] = 9.0f;
      row[30] = 9.0f;
      const double total = log_total(row);
      for (const int32_t k : {1, 2, 20, vocabulary}) {
        const Answer answer =
            run(array_of(row, {1, vocabulary}), {30}, {.rows = {{.place = 0, .top = k}}});
        EXPECT_EQ(answer.ids, best_of(row, static_cast<size_t>(k))) << target << ", " << k;
        EXPECT_EQ(answer.values[0], answer.values[1]) << "the best is the chosen, bit for bit";
        for (int32_t i = 0; i < k; ++i) {
          const double expected = double{row[static_cast<size_t>(answer.ids[i])]} - total;
          EXPECT_NEAR(answer.values[static_cast<size_t>(1 + i)], expected, 2e-5) << target;
        }
      }
    }
  });
}

// Rows that want different things of places in no order.
LogprobRows mixed_rows(int count, int places) {
  LogprobRows rows{.requested = {5, 0, 7, 7, 98}};
  for (int r = 0; r < count; ++r) {
    rows.rows.push_back({.place = (r * 7 + 3) % places,
                         .token = r,
                         .top = r % 3 == 0   ? 20
                                : r % 3 == 1 ? 0
                                             : 3,
                         .requested_begin = r % 2,
                         .requested_end = r % 4 == 0 ? 5 : r % 2});
  }
  return rows;
}

TEST(Logprobs, ComeInTheOrderOfTheRowsWhateverEachWants) {
  constexpr int kVocabulary = 99;
  const std::vector<float> logits = normal_floats(5 * kVocabulary, 10);
  const LogprobRows rows = mixed_rows(11, 5);
  std::vector<int32_t> tokens;
  for (int r = 0; r < 11; ++r) {
    tokens.push_back(r * 8);
  }
  const Answer answer = run(array_of(logits, {5, kVocabulary}), tokens, rows);
  size_t top = 11;
  size_t requested = 11;
  for (const LogprobRow& row : rows.rows) {
    requested += static_cast<size_t>(row.top);
  }
  for (size_t r = 0; r < rows.rows.size(); ++r) {
    const LogprobRow& row = rows.rows[r];
    const auto begin = logits.begin() + row.place * kVocabulary;
    const std::vector<float> one(begin, begin + kVocabulary);
    const double total = log_total(one);
    EXPECT_NEAR(answer.values[r], double{one[static_cast<size_t>(tokens[r])]} - total, 1e-5);
    for (const int32_t id : best_of(one, static_cast<size_t>(row.top))) {
      EXPECT_EQ(answer.ids[top - 11], id);
      EXPECT_NEAR(answer.values[top++], double{one[static_cast<size_t>(id)]} - total, 1e-5);
    }
    for (int32_t i = row.requested_begin; i < row.requested_end; ++i) {
      const auto id = static_cast<size_t>(rows.requested[static_cast<size_t>(i)]);
      EXPECT_NEAR(answer.values[requested++], double{one[id]} - total, 1e-5);
    }
  }
  EXPECT_EQ(answer.values.size(), requested);
}

TEST(Logprobs, HaveTheSameBitsAloneInACrowdAndForEveryNumberOfThreads) {
  constexpr int kVocabulary = 17001;
  const mx::array logits = normal_array({20, kVocabulary}, 11, 3.0f);
  const LogprobRows rows = mixed_rows(20, 20);
  std::vector<int32_t> tokens;
  for (int r = 0; r < 20; ++r) {
    tokens.push_back(r * 800);
  }
  const uint64_t by_row = variant_runs("sample/logprobs_by_row");
  const uint64_t by_block = variant_runs("sample/logprobs_by_block");
  const Answer together = run(logits, tokens, rows);
  EXPECT_EQ(variant_runs("sample/logprobs_by_row"), by_row + 1);
  testing::for_each_thread_count([&](int threads) {
    EXPECT_TRUE(same_bits(run(logits, tokens, rows).values, together.values)) << threads;
    size_t top = 20;
    for (const LogprobRow& row : rows.rows) {
      LogprobRows alone{.rows = {row}, .requested = rows.requested};
      const Answer answer = run(logits, tokens, alone);
      EXPECT_TRUE(same_bits(std::vector<float>{answer.values[0]},
                            std::vector<float>{together.values[static_cast<size_t>(row.token)]}));
      for (int32_t i = 0; i < row.top; ++i, ++top) {
        EXPECT_EQ(answer.ids[static_cast<size_t>(i)], together.ids[top - 20]);
        EXPECT_EQ(answer.values[static_cast<size_t>(1 + i)], together.values[top]);
      }
    }
  });
  EXPECT_GT(variant_runs("sample/logprobs_by_block"), by_block);
}

TEST(Logprobs, AreNoNumbersWhereTheRowIsBroken) {
  std::vector<float> logits = normal_floats(3 * 50, 12);
  logits[20] = std::nanf("");
  logits[70] = kInfinity;
  logits[130] = -kInfinity;
  LogprobRows rows{.requested = {4}};
  for (int r = 0; r < 3; ++r) {
    rows.rows.push_back(
        {.place = r, .token = r, .top = 2, .requested_begin = 0, .requested_end = 1});
  }
  for (const bool own : {true, false}) {
    set_own_kernels_enabled(own);
    const Answer answer = run(array_of(logits, {3, 50}), {1, 2, 30}, rows);
    EXPECT_TRUE(std::isnan(answer.values[0]));
    EXPECT_TRUE(std::isnan(answer.values[1]));
    EXPECT_EQ(answer.values[2], -kInfinity);
    for (const size_t i : {3, 4, 5, 6, 9, 10}) {
      EXPECT_TRUE(std::isnan(answer.values[i])) << i;
    }
    EXPECT_TRUE(std::isfinite(answer.values[7]));
    EXPECT_TRUE(std::isfinite(answer.values[11]));
  }
  set_own_kernels_enabled(true);
}

TEST(Logprobs, AgreeWithTheirTwin) {
  const mx::array logits = normal_array({9, 300}, 13, 2.0f);
  const LogprobRows rows = mixed_rows(16, 9);
  std::vector<int32_t> tokens(16, 77);
  const Answer own = run(logits, tokens, rows);
  const Logprobs twin = reference::logprobs(logits, int_array(tokens, {16}), rows);
  EXPECT_EQ(own.ids, values_of<int32_t>(twin.ids));
  const std::vector<float> values = values_of(twin.values);
  ASSERT_EQ(own.values.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(own.values[i], values[i], 1e-5f);
  }
}

TEST(Logprobs, RefuseWhatIsNotThere) {
  const mx::array logits = normal_array({3, 8}, 1);
  const mx::array tokens = int_array({1}, {1});
  EXPECT_THROW(logprobs(logits, tokens, {}), std::invalid_argument);
  EXPECT_THROW(logprobs(logits, tokens, {.rows = {{.place = 3}}}), std::invalid_argument);
  EXPECT_THROW(logprobs(logits, tokens, {.rows = {{.token = 1}}}), std::invalid_argument);
  EXPECT_THROW(logprobs(logits, tokens, {.rows = {{.top = 9}}}), std::invalid_argument);
  EXPECT_THROW(logprobs(logits, tokens, {.rows = {{.requested_end = 1}}}), std::invalid_argument);
  EXPECT_THROW(logprobs(logits, tokens, {.rows = {{}}, .requested = {8}}), std::invalid_argument);
}

}  // namespace
}  // namespace pome::kernels
