#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "quant/quantized_weight.h"

namespace pome::quant {

// A quantized matrix of a checkpoint, read row by row as codes with a scale and a bias for each
// group of columns.
struct CodedRows {
  std::string name;    // of the tensor, for messages
  std::string origin;  // "Q4_K", "affine 4-bit, groups of 64"
  int64_t rows = 0;
  int64_t columns = 0;
  int code_bits = 0;
  int group_size = 0;
  std::optional<int> zero_point;  // bias is -zero_point * scale everywhere
  // Fills one row: `columns` codes, columns / group_size scales and biases. From any thread, and
  // again for a packer that starts over; pages of the file go when all rows on them were read.
  std::function<void(int64_t row, std::span<uint8_t> codes, std::span<float> scales,
                     std::span<float> biases)>
      fill_row;
};

// Throws LoadError as load_quantized() does for names and shapes; the scales are not looked at.
CodedRows open_coded_rows(const QuantizedModule& module);

}  // namespace pome::quant
