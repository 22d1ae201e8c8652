#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/files/file_tensor.h"
#include "tensor/mlx.h"

namespace pome::tensor {

// The dtype in which MLX holds a plain encoding (f32 ... u64, boolean). CHECKs that it is not a
// block encoding.
mx::Dtype dtype_of(Encoding encoding);

struct DenseOptions {
  mx::Dtype dtype = mx::float32;                  // float32, float16 or bfloat16, or the file's own
  std::optional<std::vector<int32_t>> row_order;  // source row of each row
  float offset = 0.0f;                            // added to each value, in f32
};

// A plain tensor as an evaluated array. Where nothing changes and MLX runs without a GPU the array
// aliases the mapping and keeps it alive; otherwise the values are copied into MLX's memory,
// converted through f32 with round-to-nearest-even, and the file's pages are dropped.
mx::array dense_array(const FileTensor& tensor, const DenseOptions& options);

// True when arrays can alias a mapping in this process: MLX's CPU allocator keeps a buffer's size
// in the 8 bytes before its data and nothing else, so any memory with 8 readable bytes before it
// can be wrapped. Measured once, on two allocations; false with a GPU build of MLX, whose buffers
// are objects of the driver.
bool can_alias_files();

// IEEE half precision and bfloat16 as bits, round to nearest even; NaN stays NaN.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

}  // namespace pome::tensor
