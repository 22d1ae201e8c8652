#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kvcache/cache_spec.h"

namespace pome::engine {

// What the model and the flags ask for. Zero means "choose" where a comment says so.
struct MemoryDemand {
  int64_t weight_bytes = 0;
  kvcache::CacheSpec cache = {};
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t vocab_tokens = 0;
  int64_t step_tokens_max = 2048;  // the largest step, prefill included
  int64_t max_running_requests = 16;
  int64_t work_measured = 0;    // bytes that the largest step takes, by rehearsed ones; 0: unknown
  int64_t attention_bytes = 0;  // that attention of plain operations takes beside, at most
  int64_t queued_step_bytes = 0;     // of a small step that is queued whole behind another
  int64_t scored_token_bytes = 0;    // logits of a prompt position that a step scores, with copies
  int64_t scored_tokens_wished = 0;  // of one step, when there is room
  int64_t context_model = 0;         // what the model was trained for
  int64_t context_wished = 0;        // --context-length; 0: the model's, or what fits
  int64_t kv_tokens_wished = 0;      // --max-total-tokens; 0: choose
  int64_t mlx_cache_bytes = 0;
  bool pool_committed = false;  // whole from the start: on a GPU, and without own kernels
  int64_t pool_copies = 1;      // at once: 2 where an append of plain operations may copy the pool
};

// Where the bytes may come from.
struct MemorySupply {
  int64_t available_bytes = 0;   // free now, or the GPU's recommended working set
  int64_t max_memory_bytes = 0;  // --max-memory; 0: no cap
  double fraction_static = 0.9;  // --mem-fraction-static: weights and KV stay below this part
};

struct MemoryItem {
  std::string name = {};
  int64_t bytes = 0;
  std::string holds = {};  // what fits into it, of the items of the pool
};

struct MemoryPlan {
  int64_t budget_bytes = 0;
  std::vector<MemoryItem> items = {};     // in the order of the sum; the pool's are the last
  int64_t kv_bytes_per_token = 0;         // while all of its layers keep it
  int64_t kv_tokens_max = 0;              // of full attention layers; a whole number of pages
  int64_t context_tokens = 0;             // what one sequence may have, prompt and output together
  int64_t context_fits = 0;               // the largest context that the budget allows
  std::vector<int32_t> group_pages = {};  // by cache group, the sink included; slots of a state
  int64_t scored_tokens_max = 1;          // prompt positions that one step scores
  int64_t step_bytes_limit = 0;           // where MLX waits: one more array stays in the plan

  int64_t planned_bytes() const;
};

// Refused with the arithmetic and the largest context that would fit.
Result<MemoryPlan> plan_memory(const MemoryDemand& demand, const MemorySupply& supply);

// Working memory of the largest step without scores: activations of its tokens and the logits of
// its rows. What was measured, and never less than the arithmetic.
int64_t activation_bytes(const MemoryDemand& demand);

// "1.25 GiB", "37.5 MiB", "512 B".
std::string format_bytes(int64_t bytes);

// One line an item, the sum and the budget: what `serve` prints.
std::vector<std::string> format_plan(const MemoryPlan& plan);

}  // namespace pome::engine
