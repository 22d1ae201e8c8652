#include "engine/memory/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "engine/memory/pool_pages.h"
#include "engine/memory/work_samples.h"

namespace pome::engine {
namespace {

constexpr int64_t kFloatBytes = 4;
// Below this no request is worth serving.
constexpr int64_t kContextMin = 128;
// A pool that is committed whole is no larger than this, unless one context or a flag needs more.
constexpr int64_t kCommittedTokens = 16384;
// Page ids and the slots made of them are 32-bit.
constexpr int64_t kKvTokensMax = (int64_t{1} << 31) - (int64_t{1} << 16);

// A recurrent model's kept states take at most this part of the pool, and the logits of scored
// prompt positions this part of what is left for both.
constexpr int64_t kSnapshotsPart = 8;
constexpr int64_t kScoresPart = 8;

int64_t bytes_per_token(const MemoryDemand& demand) {
  int64_t bytes = 0;
  for (const kvcache::CacheGroup& group : demand.cache.groups) {
    bytes += group.kind == kvcache::GroupKind::state ? 0 : group.bytes_per_page;
  }
  const int64_t page_tokens = demand.cache.page_tokens;
  return (demand.pool_copies * bytes + page_tokens - 1) / page_tokens;
}

// As many as are wished, or as fit into their part of the pool.
int64_t snapshots_that_fit(const MemoryDemand& demand, int64_t pool_bytes_max) {
  const int64_t wished = snapshots_wished(demand);
  const int64_t one = pool_bytes(demand, pages_by_group(demand, 0, 1)) -
                      pool_bytes(demand, pages_by_group(demand, 0, 0));
  return one == 0 ? wished : std::clamp<int64_t>(pool_bytes_max / kSnapshotsPart / one, 0, wished);
}

// As many as are wished, or as fit into their part of what is left; a prompt is scored one position
// a step where there is no room for more.
int64_t scored_tokens_that_fit(const MemoryDemand& demand, int64_t left) {
  const int64_t wished = std::max<int64_t>(demand.scored_tokens_wished, 1);
  return demand.scored_token_bytes == 0
             ? wished
             : std::clamp<int64_t>(left / kScoresPart / demand.scored_token_bytes, 1, wished);
}

// Of one step: its logits, or what its widest layer gives.
int64_t largest_array(const MemoryDemand& demand, int64_t scored_tokens) {
  const int64_t logits = (demand.max_running_requests + scored_tokens) * demand.vocab_tokens;
  const int64_t widest = std::max(demand.hidden_size, 2 * demand.intermediate_size);
  return kFloatBytes * std::max(logits, demand.step_tokens_max * widest);
}

MemoryItem activations(const MemoryDemand& demand, int64_t scored_tokens) {
  return {.name = "activations",
          .bytes = activation_bytes(demand) + scored_tokens * demand.scored_token_bytes,
          .holds = fmt::format("{} tokens a step, {} of them scored", demand.step_tokens_max,
                               scored_tokens)};
}

void append_items(std::vector<MemoryItem>& items, const std::vector<MemoryItem>& more) {
  items.insert(items.end(), more.begin(), more.end());
}

int64_t round_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

// Tokens of the pool, by whole pages, that sequences of `context` tokens can use.
int64_t tokens_wished(const MemoryDemand& demand, int64_t context) {
  const int64_t page_tokens = demand.cache.page_tokens;
  // Every sequence at full length is the most that can ever be used.
  int64_t tokens = round_up(context, page_tokens) * demand.max_running_requests;
  if (demand.pool_committed) {
    tokens = std::min(
        tokens,
        round_up(std::max({context, kCommittedTokens, demand.kv_tokens_wished}), page_tokens));
  }
  if (demand.kv_tokens_wished > 0) {
    tokens = std::min(tokens, round_up(demand.kv_tokens_wished, page_tokens));
  }
  return tokens;
}

// The same table as at a start that works, with the cache that was asked for.
Error does_not_fit(MemoryPlan plan, const MemoryDemand& demand, int64_t context_asked) {
  const std::string advice =
      plan.context_fits >= kContextMin
          ? fmt::format("the largest context that fits is {}: --context-length {}",
                        plan.context_fits, plan.context_fits)
          : std::string(
                "no context fits: use a smaller or more strongly quantized model, or raise "
                "--max-memory");
  const int64_t page_tokens = demand.cache.page_tokens;
  const int64_t pages = round_up(context_asked, page_tokens) / page_tokens;
  append_items(plan.items, pool_items(demand, pages_by_group(demand, pages, 0)));
  return {ErrorCode::invalid_argument,
          fmt::format("[memory] the model with {} tokens of context does not fit; {}\n  {}",
                      context_asked, advice, fmt::join(format_plan(plan), "\n  ")),
          "context_length"};
}

}  // namespace

int64_t MemoryPlan::planned_bytes() const {
  int64_t bytes = 0;
  for (const MemoryItem& item : items) {
    bytes += item.bytes;
  }
  return bytes;
}

int64_t activation_bytes(const MemoryDemand& demand) {
  // A layer keeps about a dozen arrays of the hidden size alive, and the gated pair and its
  // product.
  const int64_t per_token = (12 * demand.hidden_size + 4 * demand.intermediate_size) * kFloatBytes;
  // Raw logits, adjusted logits and the sampler's working copy.
  const int64_t per_row = 3 * demand.vocab_tokens * kFloatBytes;
  return demand.queued_step_bytes + demand.attention_bytes +
         std::max({demand.step_tokens_max * per_token + demand.max_running_requests * per_row,
                   demand.work_measured, demand.queued_step_bytes});
}

Result<MemoryPlan> plan_memory(const MemoryDemand& demand, const MemorySupply& supply) {
  const int64_t page_tokens = demand.cache.page_tokens;
  CHECK(page_tokens >= 1 && !demand.cache.groups.empty(), "a cache has pages");
  CHECK(demand.context_model >= 1, "a model has a context");
  CHECK(supply.fraction_static > 0.0 && supply.fraction_static <= 1.0, "a part of the memory");
  MemoryPlan plan;
  int64_t supplied = supply.available_bytes;
  if (supply.max_memory_bytes > 0) {
    supplied = std::min(supplied, supply.max_memory_bytes);
  }
  plan.budget_bytes =
      static_cast<int64_t>(std::floor(static_cast<double>(supplied) * supply.fraction_static));
  plan.scored_tokens_max =
      scored_tokens_that_fit(demand, plan.budget_bytes - demand.weight_bytes -
                                         activation_bytes(demand) - demand.mlx_cache_bytes);
  plan.items = {{.name = "weights", .bytes = demand.weight_bytes},
                activations(demand, plan.scored_tokens_max),
                {.name = "MLX cache", .bytes = demand.mlx_cache_bytes}};
  plan.step_bytes_limit =
      std::max<int64_t>(0, without_reserve(plan.items[1].bytes - demand.queued_step_bytes) -
                               largest_array(demand, plan.scored_tokens_max));
  plan.kv_bytes_per_token = bytes_per_token(demand);

  const int64_t left = plan.budget_bytes - plan.planned_bytes();
  const int64_t snapshots = snapshots_that_fit(demand, left);
  const int64_t tokens_that_fit =
      pages_that_fit(demand, left, snapshots, kKvTokensMax / page_tokens) * page_tokens;
  plan.context_fits = std::min(tokens_that_fit, demand.context_model);
  const int64_t wished = demand.context_wished > 0
                             ? demand.context_wished
                             : std::min(demand.context_model, tokens_that_fit);
  if (demand.context_wished > demand.context_model) {
    return invalid(fmt::format("[--context-length] the model was trained for {} tokens, got {}",
                               demand.context_model, demand.context_wished),
                   "context_length");
  }
  const int64_t context_least = std::min(kContextMin, demand.context_model);
  if (demand.context_wished > 0 && demand.context_wished < context_least) {
    return invalid(fmt::format("[--context-length] expected at least {} tokens, got {}",
                               context_least, demand.context_wished),
                   "context_length");
  }
  if (wished > tokens_that_fit || wished < context_least) {
    return does_not_fit(plan, demand, std::max(wished, context_least));
  }
  plan.kv_tokens_max = std::min(tokens_wished(demand, wished), tokens_that_fit);
  plan.context_tokens = std::min(wished, plan.kv_tokens_max);
  const std::vector<int64_t> pages =
      pages_by_group(demand, plan.kv_tokens_max / page_tokens, snapshots);
  plan.group_pages.assign(pages.begin(), pages.end());
  append_items(plan.items, pool_items(demand, pages));
  return plan;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024.0 && unit + 1 < std::size(kUnits)) {
    value /= 1024.0;
    ++unit;
  }
  if (unit == 0) {
    return fmt::format("{} B", bytes);
  }
  return fmt::format("{:.{}f} {}", value, value < 10.0 ? 2 : (value < 100.0 ? 1 : 0), kUnits[unit]);
}

std::vector<std::string> format_plan(const MemoryPlan& plan) {
  std::vector<std::string> lines;
  for (const MemoryItem& item : plan.items) {
    lines.push_back(fmt::format("{:<12} {:>10}{}{}", item.name, format_bytes(item.bytes),
                                item.holds.empty() ? "" : "  ", item.holds));
  }
  lines.push_back(fmt::format("{:<12} {:>10} of {}", "planned", format_bytes(plan.planned_bytes()),
                              format_bytes(plan.budget_bytes)));
  return lines;
}

}  // namespace pome::engine
