// The best integer dot product of each target. All of them give the same integers.

#if defined(POME_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_DOT_INL_H_
#undef POME_KERNELS_DOT_INL_H_
#else
#define POME_KERNELS_DOT_INL_H_
#endif

#include "kernels/quantized_matmul/dot/pair_dot_inl.h"
#include "kernels/quantized_matmul/dot/sdot_inl.h"
#include "kernels/quantized_matmul/dot/vnni_dot_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
using BestDot = VnniDot;
#elif HWY_ARCH_ARM_A64 && defined(__ARM_FEATURE_DOTPROD)
using BestDot = SdotDot;
#else
using BestDot = PairDot;
#endif

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_DOT_INL_H_
