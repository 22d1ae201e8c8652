// The dot product of AVX-512 VNNI.

#if defined(POME_KERNELS_VNNI_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_VNNI_DOT_INL_H_
#undef POME_KERNELS_VNNI_DOT_INL_H_
#else
#define POME_KERNELS_VNNI_DOT_INL_H_
#endif

#include "kernels/quantized_matmul/dot/quantize_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL

// VPDPBUSD: unsigned code bytes times signed activation bytes, four products added into each 32-bit
// lane. Written as an instruction because Highway 1.0.3 compiles this target without the flag that
// its intrinsic wants.
struct VnniDot {
  static constexpr int kRowsMax = 8;
  static constexpr int kVectors = 1;
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

#endif

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_VNNI_DOT_INL_H_
