// The integer dot products of the quantized matmul, one struct an instruction family. Both give the
// same integers.

#if defined(POME_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_DOT_INL_H_
#undef POME_KERNELS_DOT_INL_H_
#else
#define POME_KERNELS_DOT_INL_H_
#endif

#include <cmath>

#include "kernels/quantized_matmul/quantized_input.h"
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

// 16-bit activations against codes widened to 16 bits: pairs of products into 32 bits.
struct PairDot {
  static constexpr int kRowsMax = 4;
  using Sum = IntVec;
  // Columns 0 and 2, and 1 and 3, of the quad.
  struct Codes {
    ShortVec even;
    ShortVec odd;
  };

  static bool supported() { return true; }
  static HWY_INLINE Sum zero() { return hn::Zero(IntTag()); }
  static HWY_INLINE IntVec total(Sum sum) { return sum; }

  static HWY_INLINE Codes codes(CodeVec block) {
    const ShortTag d;
    const hn::RebindToUnsigned<ShortTag> du;
    const auto v = hn::BitCast(du, block);
    return {hn::BitCast(d, hn::And(v, hn::Set(du, 0x00ff))), hn::BitCast(d, hn::ShiftRight<8>(v))};
  }
  static HWY_INLINE Codes low_codes(CodeVec block) {
    const hn::RebindToUnsigned<ShortTag> du;
    const auto v = hn::BitCast(du, block);
    return codes(hn::BitCast(CodeTag(), hn::And(v, hn::Set(du, 0x0f0f))));
  }
  static HWY_INLINE Codes high_codes(CodeVec block) {
    const hn::RebindToUnsigned<ShortTag> du;
    const auto v = hn::ShiftRight<4>(hn::BitCast(du, block));
    return codes(hn::BitCast(CodeTag(), hn::And(v, hn::Set(du, 0x0f0f))));
  }

  static HWY_INLINE IntVec multiply_pairs(ShortVec a, ShortVec b) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    return IntVec{_mm512_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_SSE4
    return IntVec{_mm_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_AVX2
    return IntVec{_mm256_madd_epi16(a.raw, b.raw)};
#else
    const IntTag d;
    const auto wide_a = hn::BitCast(d, a);
    const auto wide_b = hn::BitCast(d, b);
    const auto low = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(wide_a)),
                             hn::ShiftRight<16>(hn::ShiftLeft<16>(wide_b)));
    return hn::Add(low, hn::Mul(hn::ShiftRight<16>(wide_a), hn::ShiftRight<16>(wide_b)));
#endif
  }

  static HWY_INLINE Sum add(Sum sum, const Codes& codes, const GroupInput& x, int quad) {
    const IntTag d;
    const ShortTag ds;
    const auto even = hn::BitCast(ds, hn::Set(d, load_word(x.planes + quad * 8)));
    const auto odd = hn::BitCast(ds, hn::Set(d, load_word(x.planes + quad * 8 + 4)));
    return hn::Add(sum, hn::Add(multiply_pairs(codes.even, even), multiply_pairs(codes.odd, odd)));
  }

  static HWY_INLINE void quantize(const float* x, GroupInput& out) {
    int16_t* planes = reinterpret_cast<int16_t*>(out.planes);
    quantize_group(x, out, [&](size_t k, IntVec q) {
      HWY_ALIGN int32_t lanes[hn::MaxLanes(IntTag())];
      hn::Store(q, IntTag(), lanes);
      for (size_t i = 0; i < hn::Lanes(IntTag()); i += 4) {
        planes[k + i] = static_cast<int16_t>(lanes[i]);
        planes[k + i + 1] = static_cast<int16_t>(lanes[i + 2]);
        planes[k + i + 2] = static_cast<int16_t>(lanes[i + 1]);
        planes[k + i + 3] = static_cast<int16_t>(lanes[i + 3]);
      }
    });
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL

// VPDPBUSD: unsigned code bytes times signed activation bytes, four products added into each 32-bit
// lane. Written as an instruction because Highway 1.0.3 compiles this target without the flag that
// its intrinsic wants.
struct VnniDot {
  static constexpr int kRowsMax = 8;
  struct Sum {
    __m512i high;
    __m512i low;
  };
  using Codes = CodeVec;

  static bool supported() {
    static const bool known = __builtin_cpu_supports("avx512vnni") != 0;
    return known;
  }
  static HWY_INLINE Sum zero() { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
  static HWY_INLINE IntVec total(const Sum& sum) {
    return IntVec{_mm512_add_epi32(_mm512_slli_epi32(sum.high, 8), sum.low)};
  }

  static HWY_INLINE Codes codes(CodeVec block) { return block; }
  static HWY_INLINE Codes low_codes(CodeVec block) {
    return hn::And(block, hn::Set(CodeTag(), 0x0f));
  }
  static HWY_INLINE Codes high_codes(CodeVec block) {
    const hn::Repartition<uint16_t, CodeTag> du;
    return low_codes(hn::BitCast(CodeTag(), hn::ShiftRight<4>(hn::BitCast(du, block))));
  }

  static HWY_INLINE void multiply_add(__m512i& sum, CodeVec codes, const int8_t* word) {
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(sum)
        : "v"(codes.raw), "m"(*reinterpret_cast<const int32_t*>(word)));
  }
  static HWY_INLINE Sum add(Sum sum, Codes codes, const GroupInput& x, int quad) {
    multiply_add(sum.high, codes, x.planes + quad * 4);
    multiply_add(sum.low, codes, x.planes + 32 + quad * 4);
    return sum;
  }

  static HWY_INLINE void quantize(const float* x, GroupInput& out) {
    const IntTag d;
    const hn::Rebind<int8_t, IntTag> narrow;
    quantize_group(x, out, [&](size_t k, IntVec q) {
      const auto high = hn::ShiftRight<8>(hn::Add(q, hn::Set(d, 128)));
      const auto low = hn::Sub(q, hn::ShiftLeft<8>(high));
      hn::StoreU(hn::DemoteTo(narrow, high), narrow, out.planes + k);
      hn::StoreU(hn::DemoteTo(narrow, low), narrow, out.planes + 32 + k);
    });
  }
};
using BestDot = VnniDot;

#elif HWY_ARCH_ARM_A64 && defined(__ARM_FEATURE_DOTPROD)

// SDOT: signed bytes on both sides. Codes of 8 bits are shifted to -128 … 127, which total() puts
// back exactly through the running sum of the activations.
struct SdotDot {
  static constexpr int kRowsMax = 4;
  struct Sum {
    int32x4_t high;
    int32x4_t low;
  };
  using Codes = int8x16_t;
  static bool supported() { return true; }
  static HWY_INLINE Sum zero() { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  static HWY_INLINE IntVec total(const Sum& sum) {
    return IntVec(vaddq_s32(vshlq_n_s32(sum.high, 8), sum.low));
  }
  static HWY_INLINE Codes low_codes(CodeVec block) {
    return vreinterpretq_s8_u8(vandq_u8(block.raw, vdupq_n_u8(0x0f)));
  }
  static HWY_INLINE Codes high_codes(CodeVec block) {
    return vreinterpretq_s8_u8(vshrq_n_u8(block.raw, 4));
  }
  // An unsigned byte c is (c - 128) + 128: two signed halves whose sum is c.
  struct WideCodes {
    int8x16_t shifted;
  };
  static HWY_INLINE WideCodes codes(CodeVec block) {
    return {vreinterpretq_s8_u8(veorq_u8(block.raw, vdupq_n_u8(0x80)))};
  }
  static HWY_INLINE int8x16_t word(const int8_t* bytes) {
    return vreinterpretq_s8_s32(vdupq_n_s32(load_word(bytes)));
  }
  static HWY_INLINE Sum add(Sum sum, Codes codes, const GroupInput& x, int quad) {
    sum.high = vdotq_s32(sum.high, codes, word(x.planes + quad * 4));
    sum.low = vdotq_s32(sum.low, codes, word(x.planes + 32 + quad * 4));
    return sum;
  }
  static HWY_INLINE Sum add(Sum sum, WideCodes codes, const GroupInput& x, int quad) {
    const int8x16_t high = word(x.planes + quad * 4);
    const int8x16_t low = word(x.planes + 32 + quad * 4);
    const int8x16_t sixty_four = vdupq_n_s8(64);
    sum.high = vdotq_s32(vdotq_s32(sum.high, codes.shifted, high), sixty_four, high);
    sum.high = vdotq_s32(sum.high, sixty_four, high);
    sum.low = vdotq_s32(vdotq_s32(sum.low, codes.shifted, low), sixty_four, low);
    sum.low = vdotq_s32(sum.low, sixty_four, low);
    return sum;
  }
  static HWY_INLINE void quantize(const float* x, GroupInput& out) {
    quantize_group(x, out, [&](size_t k, IntVec q) {
      HWY_ALIGN int32_t lanes[4];
      hn::Store(q, IntTag(), lanes);
      for (size_t i = 0; i < 4; ++i) {
        const int32_t high = (lanes[i] + 128) >> 8;
        out.planes[k + i] = static_cast<int8_t>(high);
        out.planes[32 + k + i] = static_cast<int8_t>(lanes[i] - 256 * high);
      }
    });
  }
};
using BestDot = SdotDot;

#else

using BestDot = PairDot;

#endif

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_DOT_INL_H_
