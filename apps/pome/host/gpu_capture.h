#pragma once

#include "server/profiling/profiler.h"

namespace pome::apps {

// Captures of Metal's work, which Xcode opens: on Metal, in a process that was started with
// MTL_CAPTURE_ENABLED=1.
server::GpuCapture gpu_capture();

// Where profiles go: SGLANG_TORCH_PROFILER_DIR, as with SGLang, else /tmp.
std::filesystem::path profile_folder();

}  // namespace pome::apps
