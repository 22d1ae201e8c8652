#include "pome/host/gpu_capture.h"

#ifdef POME_WITH_MLX
#include <mlx/backend/metal/metal.h>

#include <atomic>
#include <exception>
#include <memory>
#endif

#include "pome/host/environment.h"

namespace pome::apps {

#ifdef POME_WITH_MLX
server::GpuCapture gpu_capture() {
  if (!mlx::core::metal::is_available()) {
    return {.why_not = "MLX runs without Metal here; Nsight Systems and perf record other devices"};
  }
  if (environment("MTL_CAPTURE_ENABLED") != "1") {
    return {.why_not = "start pome with MTL_CAPTURE_ENABLED=1 in its environment"};
  }
  const auto running = std::make_shared<std::atomic<bool>>(false);
  return {.start = [running](const std::string& file) -> Status {
            try {
              mlx::core::metal::start_capture(file);
            } catch (const std::exception& fault) {
              return Error{ErrorCode::internal, fault.what(), {}};
            }
            *running = true;
            return {};
          },
          .stop =
              [running] {
                if (running->exchange(false)) {
                  mlx::core::metal::stop_capture();
                }
              },
          .why_not = ""};
}
#else
server::GpuCapture gpu_capture() {
  return {.why_not = "this pome was built without MLX"};
}
#endif

std::filesystem::path profile_folder() {
  return environment("SGLANG_TORCH_PROFILER_DIR").value_or("/tmp");
}

}  // namespace pome::apps
