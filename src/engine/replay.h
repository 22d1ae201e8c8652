#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "engine/engine_options.h"

namespace pome::engine {

struct ReplayReport {
  int64_t steps = 0;
  int64_t tokens = 0;                 // compared
  int64_t different = 0;              // of them
  std::string first_difference = {};  // "step 12, sequence 3: recorded 17, now 21"
  std::string ended_by = {};          // a step that failed when it was recorded; empty: the end
};

// Runs the step plans of a record (engine/record) again, one after the other as they were, and
// compares the tokens. On a CPU they are the same to the last; elsewhere in deterministic mode.
// options: model_path, kv_format and disable_own_kernels as in the run that was recorded. The
// model's loader runs on the calling thread, which is MLX's until the end.
Result<ReplayReport> replay(const std::filesystem::path& record, const EngineOptions& options,
                            const ModelLoader& loader);

// Loads options.model_path.
Result<ReplayReport> replay(const std::filesystem::path& record, const EngineOptions& options);

}  // namespace pome::engine
