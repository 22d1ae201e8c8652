#include "kernels/activation/activation.h"

namespace pome::kernels {

mx::array silu_mul(const mx::array& gate, const mx::array& up) {
  return gated(gate, up, GatedActivation::silu);
}

mx::array gelu_tanh_mul(const mx::array& gate, const mx::array& up) {
  return gated(gate, up, GatedActivation::gelu_tanh);
}

mx::array gated(const mx::array& gate, const mx::array& up, GatedActivation activation) {
  return reference::gated(gate, up, activation);
}

mx::array gated_split(const mx::array& gate_up, GatedActivation activation) {
  return reference::gated_split(gate_up, activation);
}

}  // namespace pome::kernels
