// SIMD words that several kernels share, compiled once for each Highway target: include after
// foreach_target.h.

#if defined(POME_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_SIMD_INL_H_
#undef POME_KERNELS_SIMD_INL_H_
#else
#define POME_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

// On loops over a compile-time number of accumulators, so that those stay in registers.
#ifndef POME_UNROLL
#define POME_UNROLL _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<FloatTag>;

// The first `count` < Lanes elements and zeros behind them, without reading past them (a masked
// load does on some targets).
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_tail(D d, const T* from, size_t count) {
  HWY_ALIGN T lanes[hn::MaxLanes(d)] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return hn::Load(d, lanes);
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_tail(D d, hn::Vec<D> v, T* to, size_t count) {
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
}

// Stored numbers as f32: f32 itself, IEEE half and bfloat16, at any alignment of the item.
template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const hwy::float16_t* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), from));
}
template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const hwy::bfloat16_t* from) {
  const hn::Rebind<uint16_t, D> narrow;
  const hn::Rebind<uint32_t, D> wide;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}
template <class D, typename T>
HWY_INLINE hn::Vec<D> load_as_float_tail(D d, const T* from, size_t count) {
  HWY_ALIGN T lanes[hn::MaxLanes(d)] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return load_as_float(d, lanes);
}

// Rounds to nearest even into the stored type.
template <class D>
HWY_INLINE void store_float_as(D d, hn::Vec<D> v, float* to) {
  hn::StoreU(v, d, to);
}
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
// Without F16C, Highway's own conversion does not round to even.
template <class D>
HWY_INLINE void store_float_as(D d, hn::Vec<D> v, hwy::float16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> narrow;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
  // Normal halves: rebias the exponent and round at bit 13, ties to the even neighbour.
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  const auto normal =
      hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, hn::Set(du, 0xc8000fffu))));
  // Subnormal halves: adding 0.5 leaves their bits, rounded, at the bottom of the fraction.
  const auto half = hn::Set(d, 0.5f);
  const auto subnormal =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(du, half));
  const auto infinite = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7f800000u)),
                                       hn::Set(du, 0x7e00u), hn::Set(du, 0x7c00u));
  auto rounded = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000u)), subnormal, normal);
  rounded = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477fffffu)), infinite, rounded);
  hn::StoreU(hn::TruncateTo(narrow, hn::Or(rounded, sign)), narrow,
             reinterpret_cast<uint16_t*>(to));
}
#else
template <class D>
HWY_INLINE void store_float_as(D d, hn::Vec<D> v, hwy::float16_t* to) {
  const hn::Rebind<hwy::float16_t, D> narrow;
  (void)d;
  hn::StoreU(hn::DemoteTo(narrow, v), narrow, to);
}
#endif
template <class D>
HWY_INLINE void store_float_as(D d, hn::Vec<D> v, hwy::bfloat16_t* to) {
  const hn::Rebind<uint32_t, D> wide;
  const hn::Rebind<uint16_t, D> narrow;
  const auto bits = hn::BitCast(wide, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fffu)));
  // A NaN's payload could round up to infinity: keep its top bits and make it quiet.
  const auto quiet = hn::Or(bits, hn::Set(wide, 0x400000u));
  const auto is_nan = hn::RebindMask(wide, hn::IsNaN(v));
  const auto top = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  (void)d;
  hn::StoreU(hn::TruncateTo(narrow, top), narrow, reinterpret_cast<uint16_t*>(to));
}

// e^x within 2 units in the last place; 0 below -87.3 (-inf included), e^88.3 above it, whatever
// for NaN.
template <class D>
HWY_INLINE hn::Vec<D> fast_exp(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto bounded = hn::Max(hn::Min(x, hn::Set(d, 88.3762626f)), hn::Set(d, -87.3365447f));
  const auto n = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), bounded);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0f)));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  const auto value = hn::Mul(p, hn::BitCast(d, power));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -87.3365447f)), value);
}

template <class D>
HWY_INLINE float sum_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// Sums the lanes of four vectors inside each 128-bit part: lane j of a part is that part's sum of
// v[j].
HWY_INLINE FloatVec sum_within_parts(const FloatVec (&v)[4]) {
  const FloatTag d;
  const hn::Repartition<double, FloatTag> dd;
  const FloatVec ab =
      hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const FloatVec cd =
      hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  const auto low = hn::InterleaveLower(dd, hn::BitCast(dd, ab), hn::BitCast(dd, cd));
  const auto high = hn::InterleaveUpper(dd, hn::BitCast(dd, ab), hn::BitCast(dd, cd));
  return hn::Add(hn::BitCast(d, low), hn::BitCast(d, high));
}

// Adds the 128-bit parts of a vector, halves first, and stores the four sums.
template <class D>
HWY_INLINE void store_parts_sum(D d, hn::Vec<D> v, float* to) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_parts_sum(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  }
}

// Four dot products' partial vectors to four numbers.
HWY_INLINE void store_sums(const FloatVec (&v)[4], float* to) {
  store_parts_sum(FloatTag(), sum_within_parts(v), to);
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_SIMD_INL_H_
