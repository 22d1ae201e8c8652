#include "kernels/norm/norm.h"

namespace pome::kernels {

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps) {
  return reference::rms_norm(x, w, eps);
}

SumAndNorm add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& w,
                        float eps) {
  return reference::add_rms_norm(x, residual, w, eps);
}

}  // namespace pome::kernels
