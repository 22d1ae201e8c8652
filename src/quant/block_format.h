#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/files/encoding.h"

namespace pome::quant {

// How one of GGUF's block types reads as an affine code: weight = scale * code + bias, one scale
// and bias for each group of columns. Every type that pome reads is of this form, exactly: products
// of a block's f16 scale with its 4-, 6- or 8-bit sub-scale fit f32.
struct BlockForm {
  int code_bits = 0;   // codes are 0 .. 2^code_bits - 1
  int group_size = 0;  // 16 or 32
  std::optional<int>
      zero_point;  // bias is -zero_point * scale; absent where the block stores minima of its own
};

// CHECKs that `encoding` is a block encoding.
BlockForm block_form(tensor::Encoding encoding);

// Decodes one row. `row` holds whole blocks; codes.size() is the number of weights, scales and
// biases have one value for each group. Scales come as the file has them, NaN and infinities
// included.
void decode_row(tensor::Encoding encoding, std::span<const std::byte> row, std::span<uint8_t> codes,
                std::span<float> scales, std::span<float> biases);

}  // namespace pome::quant
