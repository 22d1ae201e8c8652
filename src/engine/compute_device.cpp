#include "engine/compute_device.h"

#include <fmt/format.h>
#include <unistd.h>

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

ComputeDevice gpu_device(const mx::Device& device, const OwnMemory& taken) {
  ComputeDevice gpu{.gpu = true,
                    .description = fmt::format("gpu ({})", text_of(device, "device_name"))};
  if (const int64_t free = bytes_of(device, "free_memory"); free > 0) {
    gpu.available_bytes = free + taken.mlx_bytes;  // memory of its own
    return gpu;
  }
  const int64_t system = available_memory_bytes() + taken.system_bytes;
  gpu.working_set_bytes = bytes_of(device, "max_recommended_working_set_size");
  gpu.available_bytes =
      gpu.working_set_bytes > 0 ? std::min(gpu.working_set_bytes, system) : system;
  return gpu;
}

}  // namespace

Status set_up_mlx(const EngineOptions& options) {
  mx::set_cache_limit(static_cast<size_t>(options.mlx_cache_bytes));
  kernels::set_own_kernels_enabled(!options.disable_own_kernels);
  if (options.device == DeviceChoice::automatic) {
    return {};
  }
  const bool cpu = options.device == DeviceChoice::cpu;
  const mx::Device device = cpu ? mx::Device::cpu : mx::Device::gpu;
  if (!mx::is_available(device)) {
    return invalid("[--device] expected auto or cpu: MLX finds no GPU here", "device");
  }
  mx::set_default_device(device);
  return {};
}

OwnMemory own_memory() {
  return {.system_bytes = private_memory_bytes(::getpid()),
          .mlx_bytes = static_cast<int64_t>(mx::get_active_memory() + mx::get_cache_memory()),
          .resident_bytes = occupied_memory_bytes()};
}

int64_t loaded_bytes(const OwnMemory& start) {
  mx::synchronize();
  mx::clear_cache();
  const OwnMemory now = own_memory();
  const bool gpu = mx::default_device().type == mx::Device::gpu;
  return std::max<int64_t>(
      0, gpu ? now.mlx_bytes - start.mlx_bytes : now.resident_bytes - start.resident_bytes);
}

ComputeDevice compute_device(const OwnMemory& start) {
  const OwnMemory now = own_memory();
  const OwnMemory taken = {std::max<int64_t>(0, now.system_bytes - start.system_bytes),
                           std::max<int64_t>(0, now.mlx_bytes - start.mlx_bytes)};
  const mx::Device device = mx::default_device();
  if (device.type == mx::Device::gpu) {
    return gpu_device(device, taken);
  }
  const std::string kernels =
      kernels::own_cpu_kernels()
          ? fmt::format("{}, {} threads", kernels::cpu_target_name(), kernels::thread_count())
          : std::string("own kernels off");
  return {.gpu = false,
          .description = fmt::format("cpu ({})", kernels),
          .available_bytes = available_memory_bytes() + taken.system_bytes};
}

int64_t bytes_left_by(const std::vector<LedgerEntry>& others, const ComputeDevice& device) {
  if (device.gpu && device.working_set_bytes == 0) {
    // What a loaded process has of the GPU's own memory is no longer free.
    return device.available_bytes - claimed_bytes(others, [](const LedgerEntry& entry) {
             return entry.loaded ? entry.planned_bytes : 0;
           });
  }
  const int64_t system =
      device.available_bytes - claimed_bytes(others, [](const LedgerEntry& entry) {
        return private_memory_bytes(entry.process);
      });
  if (device.working_set_bytes == 0) {
    return system;
  }
  const int64_t planned = claimed_bytes(others, [](const LedgerEntry&) { return int64_t{0}; });
  return std::min(system, device.working_set_bytes - planned);
}

}  // namespace pome::engine
