// The rotation of keys and queries: see rotation.h.

#if defined(POME_KERNELS_ROTATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_ROTATION_INL_H_
#undef POME_KERNELS_ROTATION_INL_H_
#else
#define POME_KERNELS_ROTATION_INL_H_
#endif

#include <algorithm>

#include "kernels/kv_pages/heads/rotation.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// Lane i of the result is lane i ^ kStep.
template <int kStep>
HWY_INLINE FloatVec swap_lanes(FloatVec v) {
  const FloatTag d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(FloatTag()));
  if constexpr (kStep == 1) {
    return hn::Shuffle2301(v);
  } else if constexpr (kStep == 2) {
    return hn::Shuffle1032(v);
  } else if constexpr (kStep * 2 == kLanes) {
    return hn::ConcatLowerUpper(d, v, v);
  } else {
    // Four parts: halves swapped, then all parts backwards.
    static_assert(kStep == 4 && kLanes == 16);
    return hn::ReverseBlocks(d, hn::ConcatLowerUpper(d, v, v));
  }
}

// (a, b) kStep lanes apart become (a + b, a - b).
template <int kStep>
HWY_INLINE FloatVec turn_lanes(FloatVec v) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const auto second = hn::Eq(hn::And(hn::Iota(du, 0), hn::Set(du, kStep)), hn::Set(du, kStep));
  const auto sign = hn::IfThenElseZero(hn::RebindMask(d, second), hn::SignBit(d));
  return hn::Add(swap_lanes<kStep>(v), hn::Xor(v, sign));
}

// Distances below a vector, as far as the block reaches.
template <int kStep>
HWY_INLINE FloatVec turn_inside(FloatVec v, int columns) {
  if constexpr (kStep < static_cast<int>(hn::MaxLanes(FloatTag()))) {
    return kStep < columns ? turn_inside<kStep * 2>(turn_lanes<kStep>(v), columns) : v;
  } else {
    return v;
  }
}

// x: a head of `dim` floats, padded to whole vectors.
HWY_INLINE void rotate_head(float* x, int dim, Rotated what) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int columns = 0; dim > 0; dim -= columns, x += columns) {
    columns = rotated_block(dim);
    const float scale = rotation_scale(columns, what);
    HWY_ALIGN float block[kRotatedColumns];
    for (int c = 0; c < columns; ++c) {
      block[c] = rotation_negates(c) ? -x[c] : x[c];
    }
    std::fill(block + columns, block + std::max(columns, lanes), 0.0f);
    for (int c = 0; c < columns; c += lanes) {
      hn::Store(turn_inside<1>(hn::Load(d, block + c), columns), d, block + c);
    }
    for (int step = lanes; step < columns; step *= 2) {
      for (int c = 0; c < columns; c += (c + lanes) % step == 0 ? step + lanes : lanes) {
        const auto a = hn::Load(d, block + c);
        const auto b = hn::Load(d, block + c + step);
        hn::Store(hn::Add(a, b), d, block + c);
        hn::Store(hn::Sub(a, b), d, block + c + step);
      }
    }
    for (int c = 0; c < columns; ++c) {
      x[c] = block[c] * scale;
    }
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_ROTATION_INL_H_
