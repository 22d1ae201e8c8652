#include "kernels/matmul/matmul.h"

namespace pome::kernels {

mx::array matmul_nt(const mx::array& x, const mx::array& w, const std::optional<mx::array>& bias) {
  return reference::matmul_nt(x, w, bias);
}

mx::array matrix_rows(const mx::array& ids, const mx::array& w) {
  return reference::matrix_rows(ids, w);
}

}  // namespace pome::kernels
