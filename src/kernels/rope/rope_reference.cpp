#include <cmath>
#include <vector>

#include "kernels/norm/norm.h"
#include "kernels/rope/rope.h"

namespace pome::kernels::reference {

mx::array rope(const mx::array& x, const mx::array& positions, const RopeOptions& options) {
  const int tokens = x.shape(0);
  // MLX takes a position a batch entry, and periods instead of frequencies.
  const mx::array batched = mx::expand_dims(x, 2);
  std::optional<float> base = options.base;
  std::optional<mx::array> periods;
  if (options.inverse_frequencies) {
    base.reset();
    periods = mx::array(1.0f) / *options.inverse_frequencies;
  }
  mx::array turned =
      mx::reshape(mx::fast::rope(batched, options.dims, options.traditional, base, options.scale,
                                 mx::reshape(positions, {tokens}), periods),
                  x.shape());
  if (options.amplitude == 1.0f) {
    return turned;
  }
  std::vector<float> factors(x.shape(2), 1.0f);
  std::fill(factors.begin(), factors.begin() + options.dims, options.amplitude);
  return turned * mx::array(factors.begin(), {x.shape(2)});
}

RopedQuery rope_append(const mx::array& qkv, const mx::array& positions, const KvPages& pages,
                       const mx::array& slots, const RopeOptions& options,
                       const std::optional<HeadNorms>& norms) {
  const int tokens = qkv.shape(0);
  const int kv_heads = pages.heads();
  const int dim = pages.head_dim();
  const int heads = qkv.shape(1) / dim;
  const int q_heads = heads - 2 * kv_heads;
  const mx::array split = mx::reshape(qkv, {tokens, heads, dim});
  const auto part = [&](int first, int last) {
    return mx::slice(split, mx::Shape{0, first, 0}, mx::Shape{tokens, last, dim});
  };
  mx::array q = part(0, q_heads);
  mx::array k = part(q_heads, q_heads + kv_heads);
  const mx::array v = part(q_heads + kv_heads, heads);
  if (norms) {
    q = reference::rms_norm(q, norms->q, norms->eps);
    k = reference::rms_norm(k, norms->k, norms->eps);
  }
  k = reference::rope(k, positions, options);
  return {reference::rope(q, positions, options), reference::paged_append(pages, k, v, slots)};
}

}  // namespace pome::kernels::reference
