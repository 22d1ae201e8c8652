#include <algorithm>
#include <cstring>

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
VariantCounter count_copy("kv_pages/copy");

}  // namespace

void run_append(const PageMemory& pages, const float* values, const int32_t* slots,
                int64_t tokens) {
  (pages.coded() ? count_coded : count_append).add();
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, pages.token_elements()));
  parallel_for(tokens, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(append_tokens)(pages, values, slots, begin, end);
  });
}

void run_copy(const PageMemory& pages, const int32_t* from, const int32_t* to, int64_t count) {
  count_copy.add();
  const auto bytes = static_cast<size_t>(pages.page_tokens * pages.token_bytes());
  auto* data = static_cast<uint8_t*>(pages.data);
  const auto known = [&](int32_t page) { return page >= 0 && page < pages.pages; };
  for (int64_t i = 0; i < count; ++i) {
    if (known(from[i]) && known(to[i])) {
      std::memmove(data + static_cast<size_t>(to[i]) * bytes,
                   data + static_cast<size_t>(from[i]) * bytes, bytes);
    }
  }
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
