#include <algorithm>

#include "kernels/counters.h"
#include "kernels/highway_targets.h"
#include "kernels/kv_pages/page_memory.h"
#include "kernels/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kv_pages/kv_pages_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/kv_pages/heads/heads_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

void append_tokens(const PageMemory& pages, const float* values, const int32_t* slots,
                   int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    store_slot(pages, values + t * pages.token_elements(), slots[t]);
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pome::kernels {
namespace {

HWY_EXPORT(append_tokens);

VariantCounter count_append("kv_pages/append");
VariantCounter count_coded("kv_pages/append_coded");

}  // namespace

void run_append(const PageMemory& pages, const float* values, const int32_t* slots,
                int64_t tokens) {
  (pages.coded() ? count_coded : count_append).add();
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, pages.token_elements()));
  parallel_for(tokens, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(append_tokens)(pages, values, slots, begin, end);
  });
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
