#pragma once

#include <optional>

#include "kernels/activation/activation.h"
#include "kernels/quantized_matmul/quantized_panels.h"
#include "tensor/mlx.h"

namespace pome::kernels {

// x [T, K] f32 · wᵀ (+ bias [N] f32) → [T, N] f32. Activations become 16-bit integers, one scale
// per row and group of 32 columns (relative error about 1e-5 of the group's largest); sums inside a
// group are exact, groups are added in f32 in index order. A row's result does not depend on T or
// on the number of threads.
mx::array quantized_matmul(const mx::array& x, const QuantizedPanels& w,
                           const std::optional<mx::array>& bias = std::nullopt);

// One product for a gated MLP: w holds the F gate rows, then the F up rows. x [T, K] →
// activation(gate) * up, [T, F] f32. The same bits as gated_split(quantized_matmul(x, w),
// activation).
mx::array quantized_gated_matmul(const mx::array& x, const QuantizedPanels& w,
                                 GatedActivation activation);

// Rows of the matrix, dequantised as unpack() does: ids [T] int32 → [T, K] f32. Ids outside [0, N)
// give zeros.
mx::array quantized_rows(const mx::array& ids, const QuantizedPanels& w);

namespace reference {
mx::array quantized_matmul(const mx::array& x, const QuantizedPanels& w,
                           const std::optional<mx::array>& bias);
mx::array quantized_rows(const mx::array& ids, const QuantizedPanels& w);
}  // namespace reference
}  // namespace pome::kernels
