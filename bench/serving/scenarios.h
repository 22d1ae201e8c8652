#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "measurement.h"

namespace pome::bench {

struct ScenarioOptions {
  std::filesystem::path model = {};        // the demo model
  std::filesystem::path tiny_models = {};  // folders of tiny models with random weights
  int32_t repetitions = 5;
  int32_t requests = 10000;  // of the memory scenario
  int32_t sequences = 16;    // of the decode scenario
  uint32_t seed = 1;
  bool verbose = false;  // each repetition on standard error
};

// Sequences that decode together: output tokens per second.
Result<Measurements> decode_together(const ScenarioOptions& options);
// Time to the first token behind a prefix of 2,000 cached tokens, in decode steps.
Result<Measurements> warm_prefix(const ScenarioOptions& options);
// Eight prompts of 3,000 tokens in prefill, running streams, and short chats at random moments.
Result<Measurements> mixed_load(const ScenarioOptions& options);
// The scheduler's own work, without a model: plan and commit of steps with 64 rows.
Result<Measurements> scheduler_work(const ScenarioOptions& options);
// Resident bytes per cached token against the plan's arithmetic, and resident memory over thousands
// of requests.
Result<Measurements> memory_use(const ScenarioOptions& options);

struct Scenario {
  std::string_view name;
  std::string_view sentence;
  Result<Measurements> (*run)(const ScenarioOptions&);
  bool needs_model = true;  // ScenarioOptions::model
};

inline constexpr Scenario kScenarios[] = {
    {"decode", "sequences that decode together", decode_together},
    {"prefix", "a prompt behind 2,000 cached tokens", warm_prefix},
    {"mixed", "eight 3,000-token prompts, four streams and short chats", mixed_load},
    {"scheduler", "plan and commit at 64 rows", scheduler_work, false},
    {"memory", "bytes per cached token, and requests of random shape", memory_use},
};

}  // namespace pome::bench
