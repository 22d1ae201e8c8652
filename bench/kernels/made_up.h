#pragma once

#include <random>
#include <vector>

#include "kernels/quantized_matmul/quantized_panels.h"
#include "tensor/mlx.h"

// Made-up operands for the kernel benchmarks.
namespace pome::bench {

// A matrix as a Q4_1 (4 bits) or Q8_0 (8 bits) file has it.
inline kernels::QuantizedPanels block_matrix(int64_t rows, int64_t columns, int bits) {
  kernels::PanelSource source;
  source.rows = rows;
  source.columns = columns;
  source.bits = bits;
  source.group_size = 32;
  source.fill_row = [bits](int64_t row, std::span<uint8_t> codes, std::span<float> scales,
                           std::span<float> biases) {
    auto random = static_cast<uint32_t>(row * 2654435761u + 1);
    for (uint8_t& code : codes) {
      random = random * 1664525u + 1013904223u;
      code = static_cast<uint8_t>((random >> 24) & ((1u << bits) - 1));
    }
    for (size_t g = 0; g < scales.size(); ++g) {
      scales[g] = bits == 4 ? 0.0078125f : 0.0009765625f;
      biases[g] = bits == 4 ? -0.0625f : -128.0f * scales[g];
    }
  };
  return kernels::pack_panels(source);
}

inline mx::array normal_array(const mx::Shape& shape, uint32_t seed) {
  size_t count = 1;
  for (const auto extent : shape) {
    count *= static_cast<size_t>(extent);
  }
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(random);
  }
  mx::array a(values.begin(), shape, mx::float32);
  a.eval();
  return a;
}

}  // namespace pome::bench
