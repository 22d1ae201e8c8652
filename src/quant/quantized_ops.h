#pragma once

#include <optional>

#include "kernels/activation/activation.h"
#include "quant/quantized_weight.h"
#include "tensor/mlx.h"

namespace pome::quant {

// x [T, K] · wᵀ (+ bias [N]) → [T, N] in x's dtype. Panels take f32.
mx::array quantized_matmul(const mx::array& x, const QuantizedWeight& w,
                           const std::optional<mx::array>& bias = std::nullopt);

// One product for a gated MLP: w holds the F gate rows, then the F up rows. x [T, K] →
// activation(gate) * up, [T, F].
mx::array quantized_gated_matmul(const mx::array& x, const QuantizedWeight& w,
                                 kernels::GatedActivation activation);

// Rows of the matrix, exactly dequantized: ids [T] int32 → [T, K], f32 from panels, else the
// weights' dtype. Ids outside [0, N) give zeros.
mx::array quantized_rows(const mx::array& ids, const QuantizedWeight& w);

}  // namespace pome::quant
