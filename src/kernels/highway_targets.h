#pragma once

// Which instruction sets the kernels are compiled for; before any Highway header in every file that
// has one. x86 starts at SSE4.2 (2008). The widest target, with VNNI, has to be asked for in
// Highway 1.0.3. The kernels keep vectors in arrays, which SVE does not allow, so 64-bit Arm runs
// NEON.
#if defined(__x86_64__) && !defined(HWY_BASELINE_TARGETS)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
