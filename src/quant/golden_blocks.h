#pragma once

#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>

#include "tensor/files/encoding.h"

// Blocks of each type with reference values (golden/ORIGIN), for this room's tests.
namespace pome::quant::test {

inline constexpr tensor::Encoding kBlockEncodings[] = {
    tensor::Encoding::q4_0, tensor::Encoding::q4_1, tensor::Encoding::q5_0, tensor::Encoding::q5_1,
    tensor::Encoding::q8_0, tensor::Encoding::q2_k, tensor::Encoding::q3_k, tensor::Encoding::q4_k,
    tensor::Encoding::q5_k, tensor::Encoding::q6_k};

struct GoldenBlocks {
  int32_t rows = 0;
  int32_t columns = 0;
  size_t row_bytes = 0;
  std::string file;  // rows and columns, then blocks, then f32 values

  std::string blocks() const { return file.substr(8, static_cast<size_t>(rows) * row_bytes); }
  std::span<const std::byte> row(int32_t index) const {
    const auto* begin = reinterpret_cast<const std::byte*>(file.data()) + 8;
    return {begin + static_cast<size_t>(index) * row_bytes, row_bytes};
  }
  float value(int32_t row_index, size_t column) const {
    float out = 0.0f;
    const size_t index = static_cast<size_t>(row_index) * static_cast<size_t>(columns) + column;
    std::memcpy(&out, file.data() + 8 + static_cast<size_t>(rows) * row_bytes + index * 4, 4);
    return out;
  }
};

inline GoldenBlocks read_golden(tensor::Encoding encoding) {
  std::string name(tensor::encoding_name(encoding));
  for (char& c : name) {
    c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  }
  std::ifstream in(POME_SOURCE_DIR "/src/quant/golden/" + name + ".bin", std::ios::binary);
  GoldenBlocks golden;
  golden.file.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  if (golden.file.size() < 8) {
    throw std::runtime_error("missing golden file " + name);
  }
  std::memcpy(&golden.rows, golden.file.data(), 4);
  std::memcpy(&golden.columns, golden.file.data() + 4, 4);
  golden.row_bytes = static_cast<size_t>(golden.columns / tensor::block_weights(encoding)) *
                     static_cast<size_t>(tensor::block_bytes(encoding));
  const size_t values = static_cast<size_t>(golden.rows) * static_cast<size_t>(golden.columns);
  if (golden.file.size() != 8 + static_cast<size_t>(golden.rows) * golden.row_bytes + values * 4) {
    throw std::runtime_error("golden file " + name + " has another size");
  }
  return golden;
}

}  // namespace pome::quant::test
