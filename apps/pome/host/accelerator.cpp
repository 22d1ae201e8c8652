#include "pome/host/machine.h"

#ifdef POME_WITH_MLX
#include <mlx/backend/gpu/device_info.h>
#include <mlx/version.h>

#include <variant>

#include "engine/compute_device.h"
#endif

// The headers of Apple's frameworks are there on a Mac alone, not where its compiler is borrowed.
#if defined(__APPLE__) && __has_include(<IOKit/IOKitLib.h>)
#define POME_HAS_IOKIT 1
#include <CoreFoundation/CoreFoundation.h>
#include <IOKit/IOKitLib.h>
#endif

namespace pome::apps {
namespace {

#ifdef POME_HAS_IOKIT
// The GPU's driver entry says how many cores it has.
int apple_gpu_cores() {
  const io_service_t service =
      ::IOServiceGetMatchingService(MACH_PORT_NULL, ::IOServiceMatching("AGXAccelerator"));
  if (service == 0) {
    return 0;
  }
  int cores = 0;
  const CFTypeRef value = ::IORegistryEntrySearchCFProperty(
      service, kIOServicePlane, CFSTR("gpu-core-count"), nullptr, kIORegistryIterateRecursively);
  if (value != nullptr) {
    if (::CFGetTypeID(value) == ::CFNumberGetTypeID()) {
      ::CFNumberGetValue(static_cast<CFNumberRef>(value), kCFNumberIntType, &cores);
    }
    ::CFRelease(value);
  }
  ::IOObjectRelease(service);
  return cores;
}
#else
int apple_gpu_cores() {
  return 0;
}
#endif

}  // namespace

#ifdef POME_WITH_MLX
namespace {

template <typename T>
T fact(const std::unordered_map<std::string, std::variant<std::string, size_t>>& info,
       const char* key) {
  const auto found = info.find(key);
  const T* value = found == info.end() ? nullptr : std::get_if<T>(&found->second);
  return value ? *value : T{};
}

}  // namespace

Accelerator this_accelerator() {
  namespace gpu = mlx::core::gpu;
  Accelerator accelerator;
  accelerator.mlx_version = mlx::core::version();
  accelerator.backend = engine::compute_device().description;
  if (!gpu::is_available() || gpu::device_count() == 0) {
    return accelerator;
  }
  const auto& info = gpu::device_info(0);
  accelerator.gpu = fact<std::string>(info, "device_name");
  accelerator.gpu_family = fact<std::string>(info, "architecture");
  accelerator.gpu_cores = apple_gpu_cores();
  accelerator.recommended_working_set_bytes =
      static_cast<int64_t>(fact<size_t>(info, "max_recommended_working_set_size"));
  return accelerator;
}
#else
Accelerator this_accelerator() {
  Accelerator accelerator;
  accelerator.gpu_cores = apple_gpu_cores();
  accelerator.backend = "none (built without MLX)";
  return accelerator;
}
#endif

}  // namespace pome::apps
