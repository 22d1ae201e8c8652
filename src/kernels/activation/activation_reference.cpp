#include "kernels/activation/activation.h"

namespace pome::kernels::reference {

mx::array gated(const mx::array& gate, const mx::array& up, GatedActivation activation) {
  if (activation == GatedActivation::silu) {
    return gate * mx::sigmoid(gate) * up;
  }
  const mx::Dtype dtype = gate.dtype();
  const mx::array inner = mx::array(0.7978845608028654f, dtype) *
                          (gate + mx::array(0.044715f, dtype) * gate * gate * gate);
  return mx::array(0.5f, dtype) * gate * (mx::array(1.0f, dtype) + mx::tanh(inner)) * up;
}

mx::array gated_split(const mx::array& gate_up, GatedActivation activation) {
  const std::vector<mx::array> halves = mx::split(gate_up, 2, -1);
  return reference::gated(halves[0], halves[1], activation);
}

}  // namespace pome::kernels::reference
