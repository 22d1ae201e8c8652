#include "kernels/matmul/matmul.h"
#include "kernels/quantized_matmul/quantized_matmul.h"

namespace pome::kernels::reference {

mx::array quantized_matmul(const mx::array& x, const QuantizedPanels& w,
                           const std::optional<mx::array>& bias) {
  return reference::matmul_nt(x, unpack(w), bias);
}

mx::array quantized_rows(const mx::array& ids, const QuantizedPanels& w) {
  return reference::matrix_rows(ids, unpack(w));
}

}  // namespace pome::kernels::reference
