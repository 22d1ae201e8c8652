#include "engine/compute_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "engine/memory/available_memory.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "tensor/mlx.h"

namespace pome::engine {
namespace {

std::string text_of(const mx::Device& device, const char* key) {
  const auto& info = mx::device_info(device);
  const auto found = info.find(key);
  const auto* text = found != info.end() ? std::get_if<std::string>(&found->second) : nullptr;
  return text != nullptr ? *text : std::string("unknown");
}

// 0 where the back end does not say.
int64_t bytes_of(const mx::Device& device, const char* key) {
  const auto& info = mx::device_info(device);
  const auto found = info.find(key);
  const auto* bytes = found != info.end() ? std::get_if<size_t>(&found->second) : nullptr;
  return bytes != nullptr ? static_cast<int64_t>(*bytes) : 0;
}

int64_t gpu_available_bytes(const mx::Device& device) {
  if (const int64_t free = bytes_of(device, "free_memory"); free > 0) {
    return free;  // memory of its own
  }
  const int64_t working_set = bytes_of(device, "max_recommended_working_set_size");
  const int64_t system = available_memory_bytes();
  return working_set > 0 ? std::min(working_set, system) : system;
}

}  // namespace

ComputeDevice compute_device() {
  const mx::Device device = mx::default_device();
  if (device.type == mx::Device::gpu) {
    return {.gpu = true,
            .description = fmt::format("gpu ({})", text_of(device, "device_name")),
            .available_bytes = gpu_available_bytes(device)};
  }
  const std::string kernels =
      kernels::own_cpu_kernels()
          ? fmt::format("{}, {} threads", kernels::cpu_target_name(), kernels::thread_count())
          : std::string("own kernels off");
  return {.gpu = false,
          .description = fmt::format("cpu ({})", kernels),
          .available_bytes = available_memory_bytes()};
}

}  // namespace pome::engine
