#include "kernels/norm/norm_cpu.h"

#include <algorithm>

#include "kernels/counters.h"
#include "kernels/highway_targets.h"
#include "kernels/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/norm/norm_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

void norm_rows(const NormRows& n, int64_t begin, int64_t end) {
  const FloatTag d;
  const auto dim = static_cast<size_t>(n.dim);
  const size_t lanes = hn::Lanes(d);
  for (int64_t r = begin; r < end; ++r) {
    const float* x = n.x + r * n.dim;
    if (n.residual != nullptr) {
      const float* residual = n.residual + r * n.dim;
      float* sum = n.sum + r * n.dim;
      size_t i = 0;
      for (; i + lanes <= dim; i += lanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, residual + i)), d, sum + i);
      }
      for (; i < dim; ++i) {
        sum[i] = x[i] + residual[i];
      }
      x = sum;
    }
    rms_norm_row(x, n.w, dim, n.eps, n.normed + r * n.dim);
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pome::kernels {
namespace {

HWY_EXPORT(norm_rows);
VariantCounter count_norm("norm/rms_norm");
VariantCounter count_add_norm("norm/add_rms_norm");

}  // namespace

void run_norm(const NormRows& norm) {
  constexpr int64_t kElements = 16384;  // a range worth claiming
  (norm.residual != nullptr ? count_add_norm : count_norm).add();
  const int64_t grain = std::max<int64_t>(1, kElements / std::max<int64_t>(norm.dim, 1));
  parallel_for(norm.rows, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(norm_rows)(norm, begin, end);
  });
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
