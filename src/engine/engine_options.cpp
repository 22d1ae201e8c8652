#include "engine/engine_options.h"

#include <fmt/format.h>

#include <utility>

namespace pome::engine {
namespace {

Status at_least(std::string_view flag, int64_t value, int64_t low) {
  if (value >= low) {
    return {};
  }
  return invalid(fmt::format("[{}] expected at least {}, got {}", flag, low, value));
}

}  // namespace

Result<kvcache::KvFormat> parse_kv_format(std::string_view dtype, int64_t group_size) {
  using kvcache::KvElement;
  constexpr std::pair<std::string_view, KvElement> kNames[] = {
      {"auto", KvElement::float16},      {"float16", KvElement::float16},
      {"fp16", KvElement::float16},      {"half", KvElement::float16},
      {"bfloat16", KvElement::bfloat16}, {"bf16", KvElement::bfloat16},
      {"float32", KvElement::float32},   {"fp32", KvElement::float32},
      {"int8", KvElement::int8},         {"int4", KvElement::int4}};
  if (group_size != 32 && group_size != 64 && group_size != 128) {
    return invalid(
        fmt::format("[--kv-cache-group-size] expected 32, 64 or 128, got {}", group_size));
  }
  for (const auto& [name, element] : kNames) {
    if (name == dtype) {
      return kvcache::KvFormat{element, static_cast<int32_t>(group_size)};
    }
  }
  return invalid(
      fmt::format("[--kv-cache-dtype] expected auto, float16, bfloat16, float32, int8 or int4, "
                  "got '{}'",
                  dtype));
}

Status check_options(const EngineOptions& o) {
  POME_TRY(at_least("--context-length", o.context_length, 0));
  POME_TRY(at_least("--max-running-requests", o.max_running_requests, 1));
  POME_TRY(at_least("--max-queued-requests", o.max_queued_requests, 0));
  POME_TRY(at_least("--max-total-tokens", o.max_total_tokens, 0));
  POME_TRY(at_least("--chunked-prefill-size", o.chunked_prefill_size, 0));
  POME_TRY(at_least("--max-memory", o.max_memory_bytes, 0));
  POME_TRY(at_least("--mlx-cache-limit", o.mlx_cache_bytes, 0));
  POME_TRY(at_least("--mlx-clear-cache-steps", o.mlx_clear_cache_steps, 0));
  constexpr int32_t kRunningMax = 4096;
  if (o.max_running_requests > kRunningMax) {
    return invalid(fmt::format("[--max-running-requests] expected at most {}, got {}", kRunningMax,
                               o.max_running_requests));
  }
  if (o.page_size < 1 || o.page_size > 1024 || (o.page_size & (o.page_size - 1)) != 0) {
    return invalid(
        fmt::format("[--page-size] expected a power of two from 1 to 1024, got {}", o.page_size));
  }
  if (!(o.mem_fraction_static > 0.0 && o.mem_fraction_static <= 1.0)) {
    return invalid(fmt::format("[--mem-fraction-static] expected a number in (0, 1], got {}",
                               o.mem_fraction_static));
  }
  if (!(o.schedule_conservativeness > 0.0 && o.schedule_conservativeness <= 10.0)) {
    return invalid(fmt::format("[--schedule-conservativeness] expected a number in (0, 10], got {}",
                               o.schedule_conservativeness));
  }
  return {};
}

}  // namespace pome::engine
