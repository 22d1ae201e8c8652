// The portable dot product: 16-bit activations against codes widened to 16 bits.

#if defined(POME_KERNELS_PAIR_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_PAIR_DOT_INL_H_
#undef POME_KERNELS_PAIR_DOT_INL_H_
#else
#define POME_KERNELS_PAIR_DOT_INL_H_
#endif

#include "kernels/quantized_matmul/dot/quantize_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// 16-bit activations against codes widened to 16 bits: pairs of products into 32 bits.
struct PairDot {
  static constexpr int kRowsMax = 4;
  // An activation is loaded once for so many vectors.
  static constexpr int kVectors = hn::MaxLanes(FloatTag()) < 16 ? 2 : 1;
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
    sum = hn::Add(sum, hn::Add(multiply_pairs(codes.even, even), multiply_pairs(codes.odd, odd)));
#if HWY_ARCH_X86
    // Else g++ computes all products of a group first, and stores them where registers run out.
    asm("" : "+v"(sum.raw));
#endif
    return sum;
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

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_PAIR_DOT_INL_H_
