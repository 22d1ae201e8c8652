#include <fmt/format.h>

#include <utility>

#include "base/json.h"
#include "engine/memory/memory_plan.h"
#include "hub/pull.h"
#include "hub/transfer/text.h"
#include "pome/command.h"
#include "pome/flags/command_line.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/host/machine.h"
#include "pome/host/report.h"
#include "pome/version.h"

namespace pome::apps {
namespace {

// What stands in the way of serving well, with the cure.
std::vector<std::string> missing(const Machine& machine, const Accelerator& accelerator,
                                 bool any_model) {
  std::vector<std::string> lines;
  if (accelerator.mlx_version.empty()) {
    lines.push_back(
        "MLX: this pome was built without it and serves `echo` alone; build with "
        "-DPOME_WITH_MLX=ON");
  }
#ifdef __APPLE__
  if (!accelerator.mlx_version.empty() && accelerator.gpu.empty()) {
    lines.push_back(
        "a Metal device: none is visible (a virtual machine, or no login session); pome uses the "
        "CPU");
  }
#endif
  constexpr int64_t kMemoryLow = int64_t{1} << 30;
  constexpr int64_t kDiskLow = int64_t{1} << 30;
  if (machine.memory_available_bytes > 0 && machine.memory_available_bytes < kMemoryLow) {
    lines.push_back(
        "memory: less than 1 GiB is free; close programs, or serve with a small --context-length");
  }
  if (machine.disk_free_bytes > 0 && machine.disk_free_bytes < kDiskLow) {
    lines.push_back(
        "disk: less than 1 GiB is free where models are kept; POME_CACHE and HF_HOME name another "
        "place");
  }
  if (!any_model) {
    lines.push_back("a model: none is here yet; pome pull smollm2");
  }
  return lines;
}

struct Fact {
  std::string key;
  std::string label;
  std::string text;   // for people; empty: not known here, left out
  json::value value;  // for programs
};

std::string bytes_text(int64_t bytes) {
  return bytes > 0 ? engine::format_bytes(bytes) : "";
}

std::string count_text(int count) {
  return count > 0 ? fmt::format("{}", count) : "";
}

Fact words(std::string key, std::string label, const std::string& value) {
  return {std::move(key), std::move(label), value, json::value(json::string(value))};
}

Fact amount(std::string key, std::string label, std::string text, int64_t value) {
  return {std::move(key), std::move(label), std::move(text), json::value(value)};
}

std::vector<Fact> facts_of(const Machine& machine, const Accelerator& accelerator,
                           const hub::Settings& hub) {
  const std::string kinds = machine.performance_cores > 0
                                ? fmt::format(" ({} performance, {} efficiency)",
                                              machine.performance_cores, machine.efficiency_cores)
                                : "";
  const int64_t working_set = accelerator.recommended_working_set_bytes;
  return {
      words("pome_version", "pome", kVersion),
      words("system", "system", machine.system),
      words("architecture", "architecture", machine.architecture),
      words("chip", "chip", machine.chip),
      amount("cpu_cores", "CPU cores", count_text(machine.cores) + kinds, machine.cores),
      amount("cpu_performance_cores", "", "", machine.performance_cores),
      amount("cpu_efficiency_cores", "", "", machine.efficiency_cores),
      amount("memory_bytes", "memory", bytes_text(machine.memory_bytes), machine.memory_bytes),
      amount("memory_available_bytes", "memory free", bytes_text(machine.memory_available_bytes),
             machine.memory_available_bytes),
      words("mlx_version", "MLX", accelerator.mlx_version),
      words("backend", "back end", accelerator.backend),
      words("gpu", "GPU", accelerator.gpu),
      amount("gpu_cores", "GPU cores", count_text(accelerator.gpu_cores), accelerator.gpu_cores),
      words("gpu_family", "GPU family", accelerator.gpu_family),
      amount("recommended_working_set_bytes", "GPU working set", bytes_text(working_set),
             working_set),
      amount("disk_free_bytes", "disk free", bytes_text(machine.disk_free_bytes),
             machine.disk_free_bytes),
      words("pome_cache", "models", hub.pome_cache.string()),
      words("hf_cache", "", hub.hf_cache.string()),
  };
}

}  // namespace

int check_env_command(const std::vector<std::string>& words) {
  const std::vector<ExtraOption> extras = {{"--json", "For programs.", false}};
  const auto line = parse_command_line(words, false, extras, 0);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all) {
    return show_usage(R"(usage: pome check-env [--json]

This machine as pome sees it, and what is missing to serve. Paste it into reports.

)" + extras_help(extras),
                      true);
  }
  const hub::Settings hub = hub::settings_from(environment);
  const Machine machine = this_machine(hub.pome_cache.string());
  const Accelerator accelerator = this_accelerator();
  const auto gaps = missing(machine, accelerator, !hub::list_local(hub).empty());
  const auto facts = facts_of(machine, accelerator, hub);
  if (line->has("json")) {
    json::object object;
    for (const auto& fact : facts) {
      object[fact.key] = fact.value;
    }
    object["missing"] = json::value_from(gaps);
    fmt::print("{}\n", to_string(json::value(object)));
    return 0;
  }
  for (const auto& fact : facts) {
    if (!fact.text.empty() && !fact.label.empty()) {
      fmt::print("{:<18}{}\n", fact.label, fact.text);
    }
  }
  for (size_t i = 0; i < gaps.size(); ++i) {
    fmt::print("{:<18}{}\n", i == 0 ? "missing" : "", gaps[i]);
  }
  if (gaps.empty()) {
    fmt::print("{:<18}nothing\n", "missing");
  }
  return 0;
}

}  // namespace pome::apps
