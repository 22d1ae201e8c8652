#include "quant/quantized_ops.h"

#include "kernels/quantized_matmul/quantized_matmul.h"

namespace pome::quant {
namespace {

mx::array affine_matmul(const mx::array& x, const QuantizedWeight& w) {
  const AffineArrays& a = w.affine();
  return mx::quantized_matmul(x, a.weight, a.scales, a.biases, /*transpose=*/true,
                              w.form().group_size, w.form().bits);
}

}  // namespace

mx::array quantized_matmul(const mx::array& x, const QuantizedWeight& w,
                           const std::optional<mx::array>& bias) {
  if (w.layout() == Layout::panels) {
    return kernels::quantized_matmul(x, w.panels(), bias);
  }
  const mx::array y = w.layout() == Layout::affine ? affine_matmul(x, w)
                                                   : mx::matmul(x, mx::swapaxes(w.dense(), 0, 1));
  return bias ? y + *bias : y;
}

mx::array quantized_gated_matmul(const mx::array& x, const QuantizedWeight& w,
                                 kernels::GatedActivation activation) {
  if (w.layout() == Layout::panels) {
    return kernels::quantized_gated_matmul(x, w.panels(), activation);
  }
  return kernels::gated_split(quantized_matmul(x, w), activation);
}

mx::array quantized_rows(const mx::array& ids, const QuantizedWeight& w) {
  if (w.layout() == Layout::panels) {
    return kernels::quantized_rows(ids, w.panels());
  }
  const auto rows = static_cast<int32_t>(w.rows());
  const mx::array inside = mx::logical_and(ids >= mx::array(0), ids < mx::array(rows));
  const mx::array safe = mx::where(inside, ids, mx::array(0));
  const auto gather = [&](const mx::array& a) { return mx::take(a, safe, 0); };
  const mx::array values = [&] {
    if (w.layout() == Layout::dense) {
      return gather(w.dense());
    }
    const AffineArrays& a = w.affine();
    return mx::dequantize(gather(a.weight), gather(a.scales), gather(a.biases), w.form().group_size,
                          w.form().bits);
  }();
  return mx::where(mx::expand_dims(inside, 1), values, mx::zeros_like(values));
}

}  // namespace pome::quant
