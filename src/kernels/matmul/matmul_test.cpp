#include "kernels/matmul/matmul.h"

#include <gtest/gtest.h>

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

std::vector<float> loop(const std::vector<float>& x, const std::vector<float>& w, int columns) {
  std::vector<float> y;
  for (size_t t = 0; t < x.size() / columns; ++t) {
    for (size_t n = 0; n < w.size() / columns; ++n) {
      double sum = 0.0;
      for (int k = 0; k < columns; ++k) {
        sum += double{x[t * columns + k]} * double{w[n * columns + k]};
      }
      y.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

// The array in a buffer that starts `items` elements off.
mx::array misaligned(const mx::array& a, int items) {
  const int count = static_cast<int>(a.size());
  const mx::array flat =
      mx::concatenate({mx::zeros({items}, a.dtype()), mx::reshape(a, {count})}, 0);
  mx::array part =
      mx::reshape(mx::slice(flat, mx::Shape{items}, mx::Shape{items + count}), a.shape());
  part.eval();
  return part;
}

TEST(MatmulNt, AgreesWithALoopForEveryDtypeSizeAndAlignmentOnEveryInstructionSet) {
  testing::for_each_target([](const std::string& target) {
    for (const auto dtype : {mx::float32, mx::float16, mx::bfloat16}) {
      for (const int columns : {1, 7, 16, 33, 129, 576}) {
        for (const int features : {1, 4, 9, 35}) {
          const std::vector<float> x = normal_floats(7 * columns, 1);
          const mx::array w = mx::astype(normal_array({features, columns}, 2), dtype);
          const std::vector<float> exact = values_of(mx::astype(w, mx::float32));
          const mx::array y = matmul_nt(array_of(x, {7, columns}), misaligned(w, 3));
          EXPECT_LT(relative_error(values_of(y), loop(x, exact, columns)), 1e-6)
              << target << ", " << features << " x " << columns;
        }
      }
    }
  });
}

TEST(MatmulNt, AgreesWithItsTwinAndAddsTheBias) {
  for (const auto dtype : {mx::float32, mx::float16, mx::bfloat16}) {
    const mx::array x = normal_array({5, 100}, 3);
    const mx::array w = mx::astype(normal_array({30, 100}, 4), dtype);
    const mx::array bias = normal_array({30}, 5);
    EXPECT_LT(relative_error(values_of(matmul_nt(x, w, bias)),
                             values_of(reference::matmul_nt(x, w, bias))),
              1e-6);
  }
}

TEST(MatmulNt, GivesARowTheSameBitsAloneAndInAnyCrowd) {
  for (const auto dtype : {mx::float32, mx::bfloat16}) {
    const mx::array w = mx::astype(normal_array({37, 200}, 6), dtype);
    const std::vector<float> x = normal_floats(19 * 200, 7);
    const uint64_t singles = variant_runs("matmul/rows_1_to_3");
    const uint64_t tiles = variant_runs("matmul/rows_4_or_more");
    std::vector<float> alone;
    for (int t = 0; t < 19; ++t) {
      const std::vector<float> row(x.begin() + t * 200, x.begin() + (t + 1) * 200);
      const std::vector<float> y = values_of(matmul_nt(array_of(row, {1, 200}), w));
      alone.insert(alone.end(), y.begin(), y.end());
    }
    for (int count = 2; count <= 19; ++count) {
      const std::vector<float> some(x.begin(), x.begin() + count * 200);
      EXPECT_TRUE(same_bits(values_of(matmul_nt(array_of(some, {count, 200}), w)),
                            std::vector<float>(alone.begin(), alone.begin() + count * 37)))
          << count << " rows";
    }
    EXPECT_EQ(variant_runs("matmul/rows_1_to_3"), singles + 19 + 2);
    EXPECT_EQ(variant_runs("matmul/rows_4_or_more"), tiles + 16);
  }
}

TEST(MatmulNt, GivesTheSameBitsForEveryNumberOfThreads) {
  const mx::array w = mx::astype(normal_array({501, 300}, 8), mx::float16);
  const mx::array x = normal_array({300, 300}, 9);
  const std::vector<float> expected = values_of(matmul_nt(x, w));
  testing::for_each_thread_count([&](int threads) {
    EXPECT_TRUE(same_bits(values_of(matmul_nt(x, w)), expected)) << threads << " threads";
  });
}

TEST(MatmulNt, RefusesShapesAndDtypesThatDoNotFit) {
  const mx::array x = normal_array({2, 8}, 1);
  EXPECT_THROW(matmul_nt(x, normal_array({3, 9}, 2)), std::invalid_argument);
  EXPECT_THROW(matmul_nt(x, mx::zeros({3, 8}, mx::int32)), std::invalid_argument);
  EXPECT_THROW(matmul_nt(x, normal_array({3, 8}, 2), normal_array({2}, 3)), std::invalid_argument);
}

TEST(MatrixRows, AreTheRowsAsFloatsAndZerosOutside) {
  for (const auto dtype : {mx::float32, mx::float16, mx::bfloat16}) {
    const mx::array w = mx::astype(normal_array({6, 37}, 10), dtype);
    const mx::array ids = int_array({5, 0, -1, 6, 3}, {5});
    EXPECT_TRUE(
        same_bits(values_of(matrix_rows(ids, w)), values_of(reference::matrix_rows(ids, w))));
    const std::vector<float> all = values_of(mx::astype(w, mx::float32));
    const std::vector<float> rows = values_of(matrix_rows(ids, w));
    EXPECT_TRUE(same_bits(std::vector<float>(rows.begin(), rows.begin() + 37),
                          std::vector<float>(all.begin() + 5 * 37, all.end())));
    EXPECT_EQ(std::vector<float>(rows.begin() + 2 * 37, rows.begin() + 4 * 37),
              std::vector<float>(2 * 37, 0.0f));
  }
}

}  // namespace
}  // namespace pome::kernels
