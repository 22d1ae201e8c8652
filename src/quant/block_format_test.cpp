#include "quant/block_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "quant/golden_blocks.h"

namespace pome::quant {
namespace {

using tensor::Encoding;

struct Decoded {
  std::vector<uint8_t> codes;
  std::vector<float> scales, biases;
};

Decoded decode(Encoding encoding, std::span<const std::byte> row, int64_t columns) {
  const auto groups = static_cast<size_t>(columns / block_form(encoding).group_size);
  Decoded out{std::vector<uint8_t>(static_cast<size_t>(columns)), std::vector<float>(groups),
              std::vector<float>(groups)};
  decode_row(encoding, row, out.codes, out.scales, out.biases);
  return out;
}

class BlockFormat : public testing::TestWithParam<Encoding> {};

TEST_P(BlockFormat, ScaleTimesCodePlusBiasIsTheReferenceValueExactly) {
  const test::GoldenBlocks golden = test::read_golden(GetParam());
  const auto group_size = static_cast<size_t>(block_form(GetParam()).group_size);
  for (int32_t row = 0; row < golden.rows; ++row) {
    const Decoded d = decode(GetParam(), golden.row(row), golden.columns);
    for (size_t k = 0; k < d.codes.size(); ++k) {
      const float value = std::fma(d.scales[k / group_size], static_cast<float>(d.codes[k]),
                                   d.biases[k / group_size]);
      ASSERT_EQ(value, golden.value(row, k)) << "row " << row << ", column " << k;
    }
  }
}

TEST_P(BlockFormat, CodesStayInTheirBitsAndReachBothEnds) {
  const test::GoldenBlocks golden = test::read_golden(GetParam());
  int least = 255;
  int most = 0;
  for (int32_t row = 0; row < golden.rows; ++row) {
    for (const uint8_t code : decode(GetParam(), golden.row(row), golden.columns).codes) {
      least = std::min<int>(least, code);
      most = std::max<int>(most, code);
    }
  }
  const int top = (1 << block_form(GetParam()).code_bits) - 1;
  // 8-bit codes have 256 values, so a small sample only comes close to the ends.
  EXPECT_LE(least, top / 16);
  EXPECT_GE(most, top - top / 16);
  EXPECT_LE(most, top);
}

TEST_P(BlockFormat, AZeroPointIsTheBiasInScales) {
  const test::GoldenBlocks golden = test::read_golden(GetParam());
  const BlockForm form = block_form(GetParam());
  if (!form.zero_point) {
    return;  // the type stores minima of its own
  }
  const Decoded d = decode(GetParam(), golden.row(0), golden.columns);
  for (size_t group = 0; group < d.scales.size(); ++group) {
    EXPECT_EQ(d.biases[group], static_cast<float>(-*form.zero_point) * d.scales[group]);
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, BlockFormat, testing::ValuesIn(test::kBlockEncodings),
                         [](const auto& param) {
                           return std::string(tensor::encoding_name(param.param));
                         });

TEST(BlockFormatTable, EveryBlockEncodingHasAForm) {
  for (int i = 0; i <= static_cast<int>(Encoding::q6_k); ++i) {
    const auto encoding = static_cast<Encoding>(i);
    if (tensor::is_block(encoding)) {
      EXPECT_EQ(tensor::block_weights(encoding) % block_form(encoding).group_size, 0);
    }
  }
}

}  // namespace
}  // namespace pome::quant
