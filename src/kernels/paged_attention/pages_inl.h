// Writing floats into pages, for paged_append and rope_append.

#if defined(POME_KERNELS_PAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_PAGES_INL_H_
#undef POME_KERNELS_PAGES_INL_H_
#else
#define POME_KERNELS_PAGES_INL_H_
#endif

#include "kernels/paged_attention/paged_attention_cpu.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void store_elements(const float* from, int64_t count, T* to) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store_float_as(d, hn::LoadU(d, from + i), to + i);
  }
  if (i < count) {
    HWY_ALIGN T rounded[hn::MaxLanes(d)];
    store_float_as(d, load_tail(d, from + i, static_cast<size_t>(count - i)), rounded);
    std::memcpy(to + i, rounded, static_cast<size_t>(count - i) * sizeof(T));
  }
}

// One token's values [heads, dim] to one slot.
HWY_INLINE void store_slot(const PageMemory& pages, const float* values, int32_t slot) {
  if (slot < 0 || slot >= pages.slots()) {
    return;
  }
  const int64_t count = pages.token_elements();
  const int64_t at = slot * count;
  switch (pages.type) {
    case PageType::f32:
      return store_elements(values, count, static_cast<float*>(pages.data) + at);
    case PageType::f16:
      return store_elements(values, count, static_cast<hwy::float16_t*>(pages.data) + at);
    case PageType::bf16:
      return store_elements(values, count, static_cast<hwy::bfloat16_t*>(pages.data) + at);
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_PAGES_INL_H_
