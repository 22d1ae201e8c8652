#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kvcache/kv_format.h"
#include "scheduler/scheduler.h"
#include "scheduler/step_plan.h"

namespace pome::models {
class LanguageModel;
}
namespace pome::telemetry {
class Trace;
}

namespace pome::engine {

// How keys and values are stored: auto (half precision), float16 (fp16, half), bfloat16 (bf16),
// float32 (fp32), int8 or int4. group_size is of the integers: 32, 64 or 128.
Result<kvcache::KvFormat> parse_kv_format(std::string_view dtype, int64_t group_size);

// Called on the engine thread with each step before it runs. Tests throw or wait here.
using StepProbe = std::function<void(const scheduler::StepPlan&)>;

// Where MLX computes: on a GPU where it has one, or on the one that is named.
enum class DeviceChoice { automatic, cpu, gpu };

// Everything that `serve` can set. Zero means "choose" where a comment says so.
struct EngineOptions {
  std::filesystem::path model_path = {};
  std::string served_model_name = {};  // empty: the path's last part

  int32_t context_length = 0;  // 0: the model's, or what fits
  int32_t max_running_requests = 16;
  int32_t max_queued_requests = 256;
  int32_t max_total_tokens = 0;      // of the KV pool; 0: what fits
  int32_t chunked_prefill_size = 0;  // tokens of one step; 0: from the measured rate
  int32_t page_size = 16;            // tokens
  kvcache::KvFormat kv_format = {};
  scheduler::Policy schedule_policy = scheduler::Policy::fcfs;
  double schedule_conservativeness = 1.0;  // larger: sequences are admitted later, fewer retracted
  bool disable_overlap_schedule = false;
  bool disable_radix_cache = false;
  kvcache::Eviction eviction = kvcache::Eviction::lru;  // of cached prefixes

  double mem_fraction_static = 0.9;
  int64_t max_memory_bytes = 0;                 // 0: no cap
  int64_t mlx_cache_bytes = int64_t{32} << 20;  // freed buffers that MLX may keep
  int32_t mlx_clear_cache_steps = 256;          // they go back after so many steps; 0: never
  // Where pome processes of this user note what they plan; empty: this one stands alone.
  std::filesystem::path memory_ledger = {};
  DeviceChoice device = DeviceChoice::automatic;
  bool disable_own_kernels = false;

  std::optional<uint64_t> random_seed = {};  // of requests without a seed; absent: from the system
  std::filesystem::path record_steps = {};   // a file that gets one step plan a line; empty: none
  telemetry::Trace* trace = nullptr;         // spans of every step; outlives the engine
  bool check_every_step = false;             // integrity after every step, not only when idle
  StepProbe before_step = {};
};

// Refuses values out of range with the flag's name.
Status check_options(const EngineOptions& options);

// Builds the model on the engine thread. Tests pass their own.
using ModelLoader = std::function<Result<std::unique_ptr<models::LanguageModel>>()>;

}  // namespace pome::engine
