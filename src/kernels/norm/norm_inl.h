// RMS norm of one row, for the op itself and for the heads' norms inside rope_append.

#if defined(POME_KERNELS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_NORM_INL_H_
#undef POME_KERNELS_NORM_INL_H_
#else
#define POME_KERNELS_NORM_INL_H_
#endif

#include <cmath>

#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// Four running sums of vectors, added in a fixed order; the tail joins the first.
HWY_INLINE float sum_of_squares(const float* x, size_t dim) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  FloatVec sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  size_t i = 0;
  for (; i + 4 * lanes <= dim; i += 4 * lanes) {
    POME_UNROLL
    for (size_t j = 0; j < 4; ++j) {
      const auto v = hn::LoadU(d, x + i + j * lanes);
      sums[j] = hn::MulAdd(v, v, sums[j]);
    }
  }
  for (; i + lanes <= dim; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    sums[0] = hn::MulAdd(v, v, sums[0]);
  }
  if (i < dim) {
    const auto v = load_tail(d, x + i, dim - i);
    sums[0] = hn::MulAdd(v, v, sums[0]);
  }
  return sum_lanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

// out may be x.
HWY_INLINE void rms_norm_row(const float* x, const float* w, size_t dim, float eps, float* out) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const float mean = sum_of_squares(x, dim) / static_cast<float>(dim);
  const auto factor = hn::Set(d, 1.0f / std::sqrt(mean + eps));
  size_t i = 0;
  for (; i + lanes <= dim; i += lanes) {
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), factor), hn::LoadU(d, w + i)), d, out + i);
  }
  if (i < dim) {
    const auto scaled = hn::Mul(load_tail(d, x + i, dim - i), factor);
    store_tail(d, hn::Mul(scaled, load_tail(d, w + i, dim - i)), out + i, dim - i);
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_NORM_INL_H_
