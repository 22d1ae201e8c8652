#include "kernels/quantized_matmul/quantized_matmul.h"

namespace pome::kernels {

mx::array quantized_matmul(const mx::array& x, const QuantizedPanels& w,
                           const std::optional<mx::array>& bias) {
  return reference::quantized_matmul(x, w, bias);
}

mx::array quantized_gated_matmul(const mx::array& x, const QuantizedPanels& w,
                                 GatedActivation activation) {
  return gated_split(quantized_matmul(x, w), activation);
}

mx::array quantized_rows(const mx::array& ids, const QuantizedPanels& w) {
  return reference::quantized_rows(ids, w);
}

}  // namespace pome::kernels
