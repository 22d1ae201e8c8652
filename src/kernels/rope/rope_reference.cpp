#include <cmath>
#include <vector>

#include "kernels/norm/norm.h"
#include "kernels/rope/rope.h"

namespace pome::kernels::reference {
namespace {

// MLX's CUDA kernel spreads a block's 1024 threads over pairs and tokens and allows the latter the
// z axis, which holds 64: with fewer than 16 pairs it does not start once there are 128 tokens.
constexpr int32_t kFusedDimsMin = 32;

mx::array frequencies_of(const RopeOptions& options) {
  if (options.inverse_frequencies) {
    return *options.inverse_frequencies;
  }
  std::vector<float> frequencies;
  for (int32_t i = 0; i < options.dims / 2; ++i) {
    frequencies.push_back(
        static_cast<float>(std::pow(double{options.base}, -2.0 * i / options.dims)));
  }
  return mx::array(frequencies.begin(), {options.dims / 2});
}

// The rotation in elementary operations.
mx::array turn(const mx::array& x, const mx::array& positions, const RopeOptions& options) {
  const int tokens = x.shape(0);
  const int heads = x.shape(1);
  const int pairs = options.dims / 2;
  const mx::array steps = mx::astype(mx::reshape(positions, {tokens, 1, 1}), mx::float32);
  const mx::array angles = steps * mx::array(options.scale) * frequencies_of(options);
  const mx::array c = mx::cos(angles) * mx::array(options.amplitude);
  const mx::array s = mx::sin(angles) * mx::array(options.amplitude);
  // A pair stands side by side, or half the turned part apart.
  const int axis = options.traditional ? 3 : 2;
  const mx::array part = mx::slice(x, mx::Shape{0, 0, 0}, mx::Shape{tokens, heads, options.dims});
  const std::vector<mx::array> pair =
      mx::split(mx::reshape(part, options.traditional ? mx::Shape{tokens, heads, pairs, 2}
                                                      : mx::Shape{tokens, heads, 2, pairs}),
                2, axis);
  const mx::array a = mx::squeeze(pair[0], axis);
  const mx::array b = mx::squeeze(pair[1], axis);
  const mx::array turned =
      mx::reshape(mx::stack({a * c - b * s, b * c + a * s}, axis), part.shape());
  if (options.dims == x.shape(2)) {
    return turned;
  }
  const mx::array rest =
      mx::slice(x, mx::Shape{0, 0, options.dims}, mx::Shape{tokens, heads, x.shape(2)});
  return mx::concatenate({turned, rest}, 2);
}

}  // namespace

mx::array rope(const mx::array& x, const mx::array& positions, const RopeOptions& options) {
  if (options.dims < kFusedDimsMin) {
    return turn(x, positions, options);
  }
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

RopedParts rope_parts(const mx::array& qkv, const mx::array& positions, int kv_heads, int dim,
                      const RopeOptions& options, const std::optional<HeadNorms>& norms) {
  const int tokens = qkv.shape(0);
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
  return {reference::rope(q, positions, options), reference::rope(k, positions, options), v};
}

RopedQuery rope_append(const mx::array& qkv, const mx::array& positions, const KvPages& pages,
                       const mx::array& slots, const RopeOptions& options,
                       const std::optional<HeadNorms>& norms) {
  const RopedParts parts =
      rope_parts(qkv, positions, pages.heads(), pages.head_dim(), options, norms);
  return {parts.q, reference::paged_append(pages, parts.k, parts.v, slots)};
}

}  // namespace pome::kernels::reference
