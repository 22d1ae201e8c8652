#pragma once

#include <cstdint>

#include "kernels/activation/activation.h"
#include "kernels/quantized_matmul/panel_storage.h"

namespace pome::kernels {

// What one product writes: out [T, N] = x [T, K] · wᵀ + bias, or with `gated` out [T, N / 2].
struct QuantizedProduct {
  const PanelStorage* w = nullptr;
  const float* x = nullptr;
  const float* bias = nullptr;  // [N] or null
  float* out = nullptr;
  int64_t rows = 0;  // T
  bool gated = false;
  GatedActivation activation = GatedActivation::silu;
};

// On the calling thread and the pool.
void run_quantized_product(const QuantizedProduct& product);

}  // namespace pome::kernels
