// The dot product of Arm NEON.

#if defined(POME_KERNELS_SDOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_SDOT_INL_H_
#undef POME_KERNELS_SDOT_INL_H_
#else
#define POME_KERNELS_SDOT_INL_H_
#endif

#include "kernels/quantized_matmul/dot/quantize_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

#if HWY_ARCH_ARM_A64 && defined(__ARM_FEATURE_DOTPROD)

// SDOT: signed bytes on both sides. Codes of 8 bits are shifted to -128 … 127; twice 64 times the
// activations puts the shift back exactly.
struct SdotDot {
  static constexpr int kRowsMax = 4;
  static constexpr int kVectors = 1;
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

#endif

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_SDOT_INL_H_
