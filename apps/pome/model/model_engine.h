#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/api.h"
#include "kvcache/kv_format.h"
#include "pome/flags/settings.h"
#include "telemetry/trace.h"

namespace pome::apps {

// Starts the engine of a model on disk; it loads on its own thread. A build without MLX refuses.
Result<std::unique_ptr<engine::Engine>> start_engine(const Settings& settings,
                                                     const std::string& path,
                                                     const std::string& served_name,
                                                     telemetry::Trace* trace);

#ifdef POME_WITH_MLX
// How keys and values are stored. --mlx-kv-cache-bits may repeat what --kv-cache-dtype says and
// must not contradict it.
Result<kvcache::KvFormat> kv_format_of(const Settings& settings);
#endif

struct ReplayOutcome {
  int64_t steps = 0;
  int64_t tokens = 0;     // compared
  int64_t different = 0;  // of them
  std::string first_difference = {};
  std::string ended_by = {};  // why the record ends before its last line; empty: it does not
};

// Runs the steps that `serve --record-steps` wrote on the model at `path`. A build without MLX
// refuses.
Result<ReplayOutcome> replay_record(const Settings& settings, const std::string& path,
                                    const std::string& record);

}  // namespace pome::apps
