#include "kernels/backend.h"

#include "kernels/highway_targets.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <atomic>

#include "tensor/mlx.h"

namespace pome::kernels {
namespace {

std::atomic<bool>& enabled_flag() {
  static std::atomic<bool> enabled{true};
  return enabled;
}

}  // namespace

void set_own_kernels_enabled(bool enabled) {
  enabled_flag().store(enabled, std::memory_order_relaxed);
}

bool own_kernels_enabled() {
  return enabled_flag().load(std::memory_order_relaxed);
}

bool own_cpu_kernels() {
  return own_kernels_enabled() && computes_on_cpu();
}

bool computes_on_cpu() {
  return mx::default_device() == mx::Device::cpu;
}

std::string cpu_target_name() {
  // Targets are bits, the best one lowest.
  const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(supported & -supported);
}

}  // namespace pome::kernels
