#include "quant/quantized_ops.h"

#include <utility>

#include "kernels/backend.h"
#include "kernels/matmul/matmul.h"
#include "kernels/quantized_matmul/quantized_matmul.h"

namespace pome::quant {
namespace {

// MLX's CUDA products of two rows cost as much as two of one row; those of many are compiled
// when they are first used, for up to a minute; and those of a single group of columns are wrong.
bool multiply_as_plain_numbers(int64_t rows, int64_t columns, int group_size) {
  constexpr int64_t kRowsMax = 1;
  return !kernels::computes_on_cpu() && mx::cu::is_available() &&
         (rows > kRowsMax || columns <= group_size);
}

mx::array affine_matmul(const mx::array& x, const QuantizedWeight& w) {
  const AffineArrays& a = w.affine();
  const auto [group_size, bits] = std::pair(w.form().group_size, w.form().bits);
  // On a GPU in the dtype of the scales, as dense products are in that of the weights.
  const mx::Dtype dtype = kernels::computes_on_cpu() ? x.dtype() : a.scales.dtype();
  const mx::array narrow = mx::astype(x, dtype);
  const int64_t columns = x.shape(-1);
  if (multiply_as_plain_numbers(static_cast<int64_t>(x.size()) / columns, columns, group_size)) {
    const mx::array numbers = mx::dequantize(a.weight, a.scales, a.biases, group_size, bits);
    return mx::astype(mx::matmul(narrow, mx::transpose(numbers)), x.dtype());
  }
  return mx::astype(mx::quantized_matmul(narrow, a.weight, a.scales, a.biases, /*transpose=*/true,
                                         group_size, bits),
                    x.dtype());
}

}  // namespace

mx::array quantized_matmul(const mx::array& x, const QuantizedWeight& w,
                           const std::optional<mx::array>& bias) {
  if (w.layout() == Layout::panels) {
    return kernels::quantized_matmul(x, w.panels(), bias);
  }
  if (w.layout() == Layout::dense) {
    return kernels::matmul_nt(x, w.dense(), bias);
  }
  const mx::array y = affine_matmul(x, w);
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
