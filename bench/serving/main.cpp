// Drives the engine in this process, without HTTP, through what people wait for, and prints each
// figure beside its bar. Text, or one JSON object.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "scenarios.h"

namespace pome::bench {
namespace {

struct Arguments {
  ScenarioOptions options;
  std::vector<std::string> names;
  int32_t threads = 0;
  bool json = false;
};

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const Scenario& scenario : kScenarios) {
    names.emplace_back(scenario.name);
  }
  return names;
}

int run(const Arguments& arguments) {
  if (arguments.threads > 0) {
    kernels::set_thread_count(arguments.threads);
  }
  json::object out;
  for (const Scenario& scenario : kScenarios) {
    const bool wanted = arguments.names.empty() ||
                        std::find(arguments.names.begin(), arguments.names.end(), scenario.name) !=
                            arguments.names.end();
    if (!wanted) {
      continue;
    }
    if (scenario.needs_model && arguments.options.model.empty()) {
      fmt::print(stderr, "the scenario '{}' needs --model\n", scenario.name);
      return 2;
    }
    const Result<Measurements> measurements = scenario.run(arguments.options);
    if (!measurements) {
      fmt::print(stderr, "{}\n", measurements.error().message);
      return 1;
    }
    json::array figures;
    if (!arguments.json) {
      fmt::print("{}: {}\n", scenario.name, scenario.sentence);
    }
    for (const Measurement& measurement : *measurements) {
      figures.push_back(to_json(measurement));
      if (!arguments.json) {
        fmt::print("{}\n", to_line(measurement));
      }
    }
    std::fflush(stdout);
    out[scenario.name] = std::move(figures);
  }
  if (arguments.json) {
    fmt::print("{}\n", to_string(out));
  }
  return 0;
}

}  // namespace
}  // namespace pome::bench

int main(int argc, char** argv) {
  pome::bench::Arguments arguments;
  CLI::App app("The engine under the loads that people wait for, each figure beside its bar.");
  app.add_option("scenario", arguments.names,
                 "decode, prefix, mixed, scheduler, memory; default: all")
      ->check(CLI::IsMember(pome::bench::scenario_names()));
  app.add_option("--model", arguments.options.model, "An HF folder or a GGUF file");
  app.add_option("--tiny-models", arguments.options.tiny_models,
                 "The folder of tiny models for the memory scenario")
      ->default_val(POME_SOURCE_DIR "/tests/golden/llm");
  app.add_option("--repetitions", arguments.options.repetitions, "Of each figure")
      ->check(CLI::Range(1, 1000));
  app.add_option("--requests", arguments.options.requests, "Of the memory scenario")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--sequences", arguments.options.sequences, "Of the decode scenario")
      ->check(CLI::Range(2, 1024));
  app.add_option("--seed", arguments.options.seed, "Of prompts and pauses");
  app.add_option("--threads", arguments.threads, "Threads of the CPU kernels")
      ->check(CLI::Range(1, 256));
  app.add_flag("--verbose", arguments.options.verbose, "Each repetition on standard error");
  app.add_flag("--json", arguments.json, "Print one JSON object");
  CLI11_PARSE(app, argc, argv);
  return pome::bench::run(arguments);
}
