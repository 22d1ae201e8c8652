#include "kernels/matmul/matmul.h"

namespace pome::kernels::reference {

mx::array matmul_nt(const mx::array& x, const mx::array& w, const std::optional<mx::array>& bias) {
  // On a GPU the product runs in the weights' dtype with f32 accumulation; on a CPU MLX's f16 and
  // bf16 products are slower than the conversion.
  const bool cpu = mx::default_device() == mx::Device::cpu;
  const mx::Dtype dtype = cpu ? mx::float32 : w.dtype();
  mx::array y =
      mx::astype(mx::matmul(mx::astype(x, dtype), mx::transpose(mx::astype(w, dtype))), x.dtype());
  return bias ? y + *bias : y;
}

mx::array matrix_rows(const mx::array& ids, const mx::array& w) {
  const mx::array zero(0);
  const mx::array known = mx::logical_and(ids >= zero, ids < mx::array(w.shape(0)));
  const mx::array rows = mx::take(w, mx::where(known, ids, zero), 0);
  return mx::where(mx::expand_dims(known, -1), mx::astype(rows, mx::float32), mx::array(0.0f));
}

}  // namespace pome::kernels::reference
