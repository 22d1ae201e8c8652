#pragma once

#include <string_view>

#include "tensor/mlx.h"

namespace pome::kernels {

enum class GatedActivation {
  silu,       // g / (1 + exp(-g))
  gelu_tanh,  // 0.5 g (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3)))
};

// activation(gate) * up, element by element; f32, equal shapes.
mx::array silu_mul(const mx::array& gate, const mx::array& up);
mx::array gelu_tanh_mul(const mx::array& gate, const mx::array& up);
mx::array gated(const mx::array& gate, const mx::array& up, GatedActivation activation);

// The same on the result of one fused product: gate_up [T, 2F], F columns of gate, then F of up →
// [T, F].
mx::array gated_split(const mx::array& gate_up, GatedActivation activation);

namespace reference {
mx::array gated(const mx::array& gate, const mx::array& up, GatedActivation activation);
mx::array gated_split(const mx::array& gate_up, GatedActivation activation);
}  // namespace reference
}  // namespace pome::kernels
