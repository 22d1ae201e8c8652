#include "kernels/activation/activation_cpu.h"

#include <algorithm>

#include "kernels/counters.h"
#include "kernels/thread_pool.h"

#include "kernels/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation/activation_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/activation/activation_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

void gated_run(const float* gate, const float* up, int64_t count, GatedActivation activation,
               float* out) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = gated_lanes(d, hn::LoadU(d, gate + i), hn::LoadU(d, up + i), activation);
    hn::StoreU(value, d, out + i);
  }
  if (i < count) {
    const auto left = static_cast<size_t>(count - i);
    const auto value =
        gated_lanes(d, load_tail(d, gate + i, left), load_tail(d, up + i, left), activation);
    store_tail(d, value, out + i, left);
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pome::kernels {
namespace {

HWY_EXPORT(gated_run);
VariantCounter count_gated("activation/gated");

}  // namespace

void run_gated(const float* gate, const float* up, int64_t stride, int64_t rows, int64_t features,
               GatedActivation activation, float* out) {
  constexpr int64_t kElements = 8192;  // a range worth claiming
  count_gated.add();
  parallel_for(rows, std::max<int64_t>(1, kElements / features), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(gated_run)
      (gate + r * stride, up + r * stride, features, activation, out + r * features);
    }
  });
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
