#include "kernels/norm/norm.h"

namespace pome::kernels::reference {

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps) {
  return mx::fast::rms_norm(x, w, eps);
}

SumAndNorm add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& w,
                        float eps) {
  mx::array sum = x + residual;
  mx::array normed = reference::rms_norm(sum, w, eps);
  return {std::move(sum), std::move(normed)};
}

}  // namespace pome::kernels::reference
