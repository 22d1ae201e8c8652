#pragma once

#include <cstdint>

namespace pome::kernels {

struct NormRows {
  const float* x = nullptr;         // [rows, dim]
  const float* residual = nullptr;  // [rows, dim], or null
  const float* w = nullptr;         // [dim]
  float* sum = nullptr;             // [rows, dim], with a residual
  float* normed = nullptr;          // [rows, dim]
  int64_t rows = 0;
  int64_t dim = 0;
  float eps = 0.0f;
};

// On the calling thread and the pool.
void run_norm(const NormRows& norm);

}  // namespace pome::kernels
