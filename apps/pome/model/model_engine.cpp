#include "pome/model/model_engine.h"

#include "pome/model/open_model.h"
#ifdef POME_WITH_MLX
#include <fmt/format.h>
#include <unistd.h>

#include "engine/llm_engine.h"
#include "engine/replay.h"
#include "kernels/thread_pool.h"
#include "pome/host/environment.h"
#endif

namespace pome::apps {
#ifdef POME_WITH_MLX
namespace {

std::filesystem::path ledger_folder(const std::string& setting) {
  if (setting == "off") {
    return {};
  }
  if (setting != "auto") {
    return setting;
  }
  if (const auto run = environment("XDG_RUNTIME_DIR")) {
    return std::filesystem::path(*run) / "pome-memory";
  }
  return std::filesystem::temp_directory_path() / fmt::format("pome-memory-{}", ::geteuid());
}

Result<engine::EngineOptions> options_from(const Settings& settings) {
  const auto whole = [&](std::string_view name) {
    return static_cast<int32_t>(settings.integer(name).value_or(0));
  };
  engine::EngineOptions options;
  options.context_length = whole("--context-length");
  options.max_running_requests = whole("--max-running-requests");
  options.max_queued_requests = whole("--max-queued-requests");
  options.max_total_tokens = whole("--max-total-tokens");
  options.chunked_prefill_size = whole("--chunked-prefill-size");
  options.page_size = whole("--page-size");
  options.mem_fraction_static = *settings.number("--mem-fraction-static");
  options.max_memory_bytes = parse_bytes(settings.text("--max-memory")).value_or(0);
  options.mlx_cache_bytes =
      parse_bytes(settings.text("--mlx-cache-limit")).value_or(options.mlx_cache_bytes);
  options.memory_ledger = ledger_folder(settings.text("--memory-ledger"));
  options.mlx_clear_cache_steps = whole("--mlx-clear-cache-steps");
  const std::string device = settings.text("--device");
  options.device = device == "auto"  ? engine::DeviceChoice::automatic
                   : device == "cpu" ? engine::DeviceChoice::cpu
                                     : engine::DeviceChoice::gpu;
  options.disable_own_kernels = settings.on("--disable-own-kernels");
  options.record_steps = settings.text("--record-steps");
  if (const auto seed = settings.integer("--random-seed")) {
    options.random_seed = static_cast<uint64_t>(*seed);
  }
  auto format = kv_format_of(settings);
  if (!format) {
    return format.error();
  }
  options.kv_format = format.value();
  auto policy = scheduler::parse_policy(settings.text("--schedule-policy"));
  if (!policy) {
    return policy.error();
  }
  options.schedule_policy = policy.value();
  options.schedule_conservativeness = *settings.number("--schedule-conservativeness");
  options.disable_overlap_schedule = settings.on("--disable-overlap-schedule");
  options.disable_radix_cache = settings.on("--disable-radix-cache");
  options.eviction = settings.text("--radix-eviction-policy") == "lfu" ? kvcache::Eviction::lfu
                                                                       : kvcache::Eviction::lru;
  return options;
}

}  // namespace

Result<kvcache::KvFormat> kv_format_of(const Settings& settings) {
  std::string dtype = settings.text("--kv-cache-dtype");
  if (const std::string bits = settings.text("--mlx-kv-cache-bits"); !bits.empty()) {
    if (dtype != "auto" && dtype != "int" + bits) {
      return invalid(
          fmt::format("[--mlx-kv-cache-bits] {} contradicts --kv-cache-dtype {}: leave one "
                      "of the two out",
                      bits, dtype));
    }
    dtype = "int" + bits;
  }
  return engine::parse_kv_format(dtype, settings.integer("--kv-cache-group-size").value_or(64));
}

Result<std::unique_ptr<engine::Engine>> start_engine(const Settings& settings,
                                                     const std::string& path,
                                                     const std::string& served_name,
                                                     telemetry::Trace* trace) {
  auto options = options_from(settings);
  if (!options) {
    return options.error();
  }
  options->model_path = path;
  options->served_model_name = served_name;
  options->trace = trace;
  POME_TRY(engine::check_options(options.value()));
  if (const auto threads = settings.integer("--threads")) {
    kernels::set_thread_count(static_cast<int>(*threads));
  }
  return std::unique_ptr<engine::Engine>(
      std::make_unique<engine::LlmEngine>(std::move(options).value()));
}

Result<ReplayOutcome> replay_record(const Settings& settings, const std::string& path,
                                    const std::string& record) {
  auto options = options_from(settings);
  if (!options) {
    return options.error();
  }
  options->model_path = path;
  POME_TRY(engine::check_options(options.value()));
  if (const auto threads = settings.integer("--threads")) {
    kernels::set_thread_count(static_cast<int>(*threads));
  }
  const auto report = engine::replay(record, options.value());
  if (!report) {
    return report.error();
  }
  return ReplayOutcome{.steps = report->steps,
                       .tokens = report->tokens,
                       .different = report->different,
                       .first_difference = report->first_difference,
                       .ended_by = report->ended_by};
}
#else
Result<ReplayOutcome> replay_record(const Settings&, const std::string&, const std::string&) {
  return invalid("this pome was built without MLX and runs no recorded steps");
}

Result<std::unique_ptr<engine::Engine>> start_engine(const Settings&, const std::string&,
                                                     const std::string&, telemetry::Trace*) {
  return invalid("this pome was built without MLX and serves --model-path echo alone",
                 "model-path");
}
#endif

}  // namespace pome::apps
