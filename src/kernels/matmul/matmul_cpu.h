#pragma once

#include <cstdint>

namespace pome::kernels {

enum class WeightType { f32, f16, bf16 };

struct DenseProduct {
  const float* x = nullptr;     // [tokens, columns]
  const void* w = nullptr;      // [features, columns], aligned to its item
  const float* bias = nullptr;  // [features] or null
  float* out = nullptr;         // [tokens, features]
  WeightType type = WeightType::f32;
  int64_t tokens = 0;
  int64_t features = 0;
  int64_t columns = 0;
};

// On the calling thread and the pool.
void run_dense_product(const DenseProduct& product);

// Rows ids[0 … count) of w to out [count, columns]; zeros for ids outside [0, rows).
void run_matrix_rows(const void* w, WeightType type, int64_t rows, int64_t columns,
                     const int32_t* ids, int64_t count, float* out);

}  // namespace pome::kernels
