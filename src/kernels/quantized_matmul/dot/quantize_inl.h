// The integer dot products of the quantized matmul, one struct an instruction family. Both give the
// same integers.

#if defined(POME_KERNELS_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_QUANTIZE_INL_H_
#undef POME_KERNELS_QUANTIZE_INL_H_
#else
#define POME_KERNELS_QUANTIZE_INL_H_
#endif

#include <cmath>

#include "kernels/quantized_matmul/dot/quantized_input.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// One 32-bit lane an output row; four code bytes (a quad of columns) in each.
using IntTag = hn::RebindToSigned<FloatTag>;
using IntVec = hn::Vec<IntTag>;
using CodeTag = hn::Repartition<uint8_t, IntTag>;
using CodeVec = hn::Vec<CodeTag>;
using ShortTag = hn::Repartition<int16_t, IntTag>;
using ShortVec = hn::Vec<ShortTag>;

HWY_INLINE int32_t load_word(const int8_t* bytes) {
  int32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// Turns 32 floats into integers: store(first column, vector of q) for each vector, then the sums.
template <class Store>
HWY_INLINE void quantize_group(const float* x, GroupInput& out, Store store) {
  const FloatTag d;
  const IntTag di;
  constexpr size_t kColumns = 32;
  const size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(d);
  auto poison = hn::Zero(d);
  for (size_t k = 0; k < kColumns; k += lanes) {
    const auto v = hn::LoadU(d, x + k);
    largest = hn::Max(largest, hn::Abs(v));
    poison = hn::MulAdd(v, hn::Zero(d), poison);
  }
  const float peak = hn::GetLane(hn::MaxOfLanes(d, largest));
  // NaN and infinities make the scale NaN, and with it every output of the row.
  const float scale = peak / kQuantizedMax + sum_lanes(d, poison);
  const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  // The reciprocal of a subnormal scale is infinite; such a group counts as zeros.
  const auto factor = hn::Set(d, std::isinf(inverse) ? 0.0f : inverse);
  int32_t half_sums[2];
  for (size_t half = 0; half < 2; ++half) {
    auto sum = hn::Zero(di);
    for (size_t k = half * 16; k < half * 16 + 16; k += lanes) {
      const auto bound = hn::Set(d, kQuantizedMax);
      const auto scaled = hn::Mul(hn::LoadU(d, x + k), factor);
      const auto q = hn::NearestInt(hn::Max(hn::Min(scaled, bound), hn::Neg(bound)));
      sum = hn::Add(sum, q);
      store(k, q);
    }
    half_sums[half] = hn::GetLane(hn::SumOfLanes(di, sum));
  }
  out.scale = scale;
  for (int half = 0; half < 2; ++half) {
    out.half_sums[half] = half_sums[half];
    out.half_weighted[half] = scale * static_cast<float>(half_sums[half]);
  }
  out.sum = half_sums[0] + half_sums[1];
  out.weighted = scale * static_cast<float>(out.sum);
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_QUANTIZE_INL_H_
