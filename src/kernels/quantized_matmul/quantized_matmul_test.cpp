#include "kernels/quantized_matmul/quantized_matmul.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "kernels/backend.h"
#include "kernels/counters.h"
#include "kernels/highway_targets.h"
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

enum class Factors { half_zero_point, half_biases, float_zero_point, float_biases };

struct Matrix {
  int64_t rows;
  int64_t columns;
  int bits;
  int group_size;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> biases;

  Matrix(int64_t n, int64_t k, int b, int g, Factors factors, uint32_t seed = 7)
      : rows(n),
        columns(k),
        bits(b),
        group_size(g),
        codes(n * k),
        scales(n * k / g),
        biases(n * k / g) {
    std::mt19937 random(seed);
    for (uint8_t& code : codes) {
      code = static_cast<uint8_t>(random() & ((1u << bits) - 1));
    }
    const bool wide = factors == Factors::float_zero_point || factors == Factors::float_biases;
    const bool stored = factors == Factors::half_biases || factors == Factors::float_biases;
    for (size_t i = 0; i < scales.size(); ++i) {
      // Eleven significant bits are exact as IEEE half, twenty are not.
      const auto number = static_cast<float>(random() % (wide ? 1u << 20 : 1u << 11));
      scales[i] = std::ldexp(number - (wide ? 3e5f : 700.0f), wide ? -26 : -17);
      biases[i] = stored ? std::ldexp(static_cast<float>(random() % 2048), -14) - 0.0625f
                         : static_cast<float>(bits == 4 ? -8 : -128) * scales[i];
    }
  }

  PanelSource source() const {
    return {rows, columns, bits, group_size,
            [this](int64_t row, std::span<uint8_t> c, std::span<float> s, std::span<float> b) {
              const int64_t groups = columns / group_size;
              std::copy_n(codes.begin() + row * columns, columns, c.begin());
              std::copy_n(scales.begin() + row * groups, groups, s.begin());
              std::copy_n(biases.begin() + row * groups, groups, b.begin());
            }};
  }

  float weight(int64_t row, int64_t k) const {
    const int64_t group = row * (columns / group_size) + k / group_size;
    return std::fma(scales[group], static_cast<float>(codes[row * columns + k]), biases[group]);
  }

  std::vector<float> dense() const {
    std::vector<float> values;
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t k = 0; k < columns; ++k) {
        values.push_back(weight(n, k));
      }
    }
    return values;
  }

  std::vector<float> product(const std::vector<float>& x, int64_t tokens) const {
    std::vector<float> y;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t n = 0; n < rows; ++n) {
        double sum = 0.0;
        for (int64_t k = 0; k < columns; ++k) {
          sum += double{x[t * columns + k]} * double{weight(n, k)};
        }
        y.push_back(static_cast<float>(sum));
      }
    }
    return y;
  }
};

constexpr Factors kFactors[] = {Factors::half_zero_point, Factors::half_biases,
                                Factors::float_zero_point, Factors::float_biases};

TEST(QuantizedPanels, KeepEveryWeightExactlyForEveryLayout) {
  for (const int bits : {4, 8}) {
    for (const int group : {16, 32, 64, 128}) {
      for (const Factors factors : kFactors) {
        const Matrix m(33, group * 3, bits, group, factors);
        const QuantizedPanels w = pack_panels(m.source());
        EXPECT_TRUE(same_bits(values_of(unpack(w)), m.dense()))
            << bits << " bits, groups of " << group;
      }
    }
  }
}

TEST(QuantizedPanels, StoreHalfScalesAndNoBiasesWhereThatIsExact) {
  const auto bytes = [](Factors factors) {
    return pack_panels(Matrix(16, 1024, 4, 32, factors).source()).bytes();
  };
  EXPECT_EQ(bytes(Factors::half_zero_point), 16u * 1024 / 2 + 16 * 32 * 2);
  EXPECT_EQ(bytes(Factors::half_biases), 16u * 1024 / 2 + 16 * 32 * 4);
  EXPECT_EQ(bytes(Factors::float_zero_point), 16u * 1024 / 2 + 16 * 32 * 4);
  EXPECT_EQ(bytes(Factors::float_biases), 16u * 1024 / 2 + 16 * 32 * 8);
}

TEST(QuantizedPanels, ReadARowAgainOnlyWhenPackingStartsOver) {
  for (const Factors factors : kFactors) {
    const Matrix m(100, 64, 4, 32, factors);
    std::vector<std::atomic<int>> reads(static_cast<size_t>(m.rows));
    PanelSource source = m.source();
    source.fill_row = [&, fill = source.fill_row](int64_t row, auto codes, auto scales,
                                                  auto biases) {
      ++reads[static_cast<size_t>(row)];
      fill(row, codes, scales, biases);
    };
    pack_panels(source);
    const int most = factors == Factors::half_zero_point ? 1 : 3;
    for (const auto& count : reads) {
      EXPECT_GE(count, 1);
      EXPECT_LE(count, most);
    }
  }
}

TEST(QuantizedPanels, RefuseSizesThatNoLayoutHas) {
  PanelSource source = Matrix(4, 64, 4, 32, Factors::half_biases).source();
  source.columns = 48;
  EXPECT_THROW(pack_panels(source), std::invalid_argument);
  source.columns = 64;
  source.bits = 5;
  EXPECT_THROW(pack_panels(source), std::invalid_argument);
  source.bits = 4;
  source.group_size = 8;
  EXPECT_THROW(pack_panels(source), std::invalid_argument);
  source.group_size = 32;
  source.rows = 0;
  EXPECT_THROW(pack_panels(source), std::invalid_argument);
}

TEST(QuantizedMatmul, AgreesWithAFloatLoopOnEveryInstructionSet) {
  testing::for_each_target([](const std::string& target) {
    for (const int bits : {4, 8}) {
      for (const int group : {16, 32, 64, 128}) {
        for (const Factors factors : kFactors) {
          const Matrix m(35, group * 3, bits, group, factors);
          const std::vector<float> x = normal_floats(9 * m.columns, 3);
          const mx::array y = quantized_matmul(array_of(x, {9, static_cast<int>(m.columns)}),
                                               pack_panels(m.source()));
          EXPECT_LT(relative_error(values_of(y), m.product(x, 9)), 3e-5)
              << target << ", " << bits << " bits, groups of " << group;
        }
      }
    }
  });
}

TEST(QuantizedMatmul, AgreesWithItsPlainOpsTwin) {
  const Matrix m(100, 320, 4, 32, Factors::half_biases);
  const QuantizedPanels w = pack_panels(m.source());
  const mx::array x = normal_array({5, 320}, 11);
  const mx::array bias = normal_array({100}, 12);
  EXPECT_LT(relative_error(values_of(quantized_matmul(x, w, bias)),
                           values_of(reference::quantized_matmul(x, w, bias))),
            3e-5);
  set_own_kernels_enabled(false);
  const std::vector<float> plain = values_of(quantized_matmul(x, w, bias));
  set_own_kernels_enabled(true);
  EXPECT_TRUE(same_bits(plain, values_of(reference::quantized_matmul(x, w, bias))));
}

TEST(QuantizedMatmul, GivesARowTheSameBitsAloneAndInAnyCrowd) {
  for (const int bits : {4, 8}) {
    const Matrix m(70, 576, bits, 32, Factors::half_biases);
    const QuantizedPanels w = pack_panels(m.source());
    const std::vector<float> x = normal_floats(67 * 576, 5);
    std::vector<float> alone;
    const uint64_t ones = variant_runs("quantized_matmul/rows_1");
    for (int t = 0; t < 67; ++t) {
      const std::vector<float> row(x.begin() + t * 576, x.begin() + (t + 1) * 576);
      const std::vector<float> y = values_of(quantized_matmul(array_of(row, {1, 576}), w));
      alone.insert(alone.end(), y.begin(), y.end());
    }
    EXPECT_EQ(variant_runs("quantized_matmul/rows_1"), ones + 67);
    const uint64_t few = variant_runs("quantized_matmul/rows_2_to_7");
    const uint64_t tiles = variant_runs("quantized_matmul/rows_8_or_more");
    for (int count = 2; count <= 67; ++count) {
      const std::vector<float> rows(x.begin(), x.begin() + count * 576);
      const std::vector<float> y = values_of(quantized_matmul(array_of(rows, {count, 576}), w));
      EXPECT_TRUE(same_bits(y, std::vector<float>(alone.begin(), alone.begin() + count * 70)))
          << count << " rows";
    }
    EXPECT_EQ(variant_runs("quantized_matmul/rows_2_to_7"), few + 6);
    EXPECT_EQ(variant_runs("quantized_matmul/rows_8_or_more"), tiles + 60);
  }
}

TEST(QuantizedMatmul, GivesTheSameBitsForEveryNumberOfThreads) {
  const Matrix m(1000, 576, 4, 32, Factors::half_biases);
  const QuantizedPanels w = pack_panels(m.source());
  const mx::array x = normal_array({33, 576}, 6);
  const std::vector<float> expected = values_of(quantized_matmul(x, w));
  testing::for_each_thread_count([&](int threads) {
    EXPECT_TRUE(same_bits(values_of(quantized_matmul(x, w)), expected)) << threads << " threads";
  });
}

TEST(QuantizedMatmul, FusesTheGatedActivationWithoutChangingABit) {
  for (const int features : {48, 40}) {
    const Matrix m(2 * features, 96, 4, 32, Factors::half_biases);
    const QuantizedPanels w = pack_panels(m.source());
    const mx::array x = normal_array({9, 96}, 8);
    for (const auto activation : {GatedActivation::silu, GatedActivation::gelu_tanh}) {
      EXPECT_TRUE(same_bits(values_of(quantized_gated_matmul(x, w, activation)),
                            values_of(gated_split(quantized_matmul(x, w), activation))));
    }
  }
}

TEST(QuantizedMatmul, ReadsRowsThatAreNotContiguous) {
  const Matrix m(20, 64, 8, 32, Factors::half_zero_point);
  const QuantizedPanels w = pack_panels(m.source());
  const mx::array wide = normal_array({6, 100}, 9);
  const mx::array part = mx::slice(wide, mx::Shape{0, 20}, mx::Shape{6, 84});
  EXPECT_TRUE(same_bits(values_of(quantized_matmul(part, w)),
                        values_of(quantized_matmul(mx::contiguous(part), w))));
}

TEST(QuantizedMatmul, HandsOnNotANumberAndKeepsOtherRows) {
  const Matrix m(20, 64, 4, 32, Factors::half_zero_point);
  const QuantizedPanels w = pack_panels(m.source());
  std::vector<float> x = normal_floats(3 * 64, 10);
  const std::vector<float> clean = values_of(quantized_matmul(array_of(x, {3, 64}), w));
  x[64 + 5] = std::numeric_limits<float>::quiet_NaN();
  x[128 + 40] = std::numeric_limits<float>::infinity();
  const std::vector<float> y = values_of(quantized_matmul(array_of(x, {3, 64}), w));
  for (int n = 0; n < 20; ++n) {
    EXPECT_EQ(y[n], clean[n]);
    EXPECT_TRUE(std::isnan(y[20 + n]));
    EXPECT_TRUE(std::isnan(y[40 + n]));
  }
}

TEST(QuantizedMatmul, TakesExtremeActivations) {
  const Matrix m(16, 64, 8, 32, Factors::half_biases);
  const QuantizedPanels w = pack_panels(m.source());
  std::vector<float> x(4 * 64, 0.0f);
  std::fill(x.begin() + 64, x.begin() + 128, 1e-42f);
  std::fill(x.begin() + 128, x.begin() + 192, 1e30f);
  std::fill(x.begin() + 192, x.end(), -65504.0f);
  const std::vector<float> y = values_of(quantized_matmul(array_of(x, {4, 64}), w));
  const std::vector<float> expected = m.product(x, 4);
  for (int n = 0; n < 16; ++n) {
    EXPECT_EQ(y[n], 0.0f);
    EXPECT_NEAR(y[16 + n], 0.0f, 1e-30f);
    EXPECT_NEAR(y[32 + n] / 1e30f, expected[32 + n] / 1e30f, 1e-3f);
    EXPECT_NEAR(y[48 + n] / 65504.0f, expected[48 + n] / 65504.0f, 1e-3f);
  }
}

TEST(QuantizedRows, AreTheRowsOfTheMatrixAndZerosOutsideIt) {
  const Matrix m(21, 96, 8, 32, Factors::half_zero_point);
  const QuantizedPanels w = pack_panels(m.source());
  const std::vector<float> rows = values_of(quantized_rows(int_array({20, 0, 21, -1, 7}, {5}), w));
  const std::vector<float> dense = m.dense();
  const auto row = [&](int i) {
    return std::vector<float>(rows.begin() + i * 96, rows.begin() + (i + 1) * 96);
  };
  const auto expected = [&](int i) {
    return std::vector<float>(dense.begin() + i * 96, dense.begin() + (i + 1) * 96);
  };
  EXPECT_TRUE(same_bits(row(0), expected(20)));
  EXPECT_TRUE(same_bits(row(1), expected(0)));
  EXPECT_EQ(row(2), std::vector<float>(96, 0.0f));
  EXPECT_EQ(row(3), std::vector<float>(96, 0.0f));
  EXPECT_TRUE(same_bits(row(4), expected(7)));
}

}  // namespace
}  // namespace pome::kernels
