#include "pome/bench/bench.h"

#include <fmt/format.h>

#include "pome/bench/options.h"
#include "pome/command.h"
#include "pome/flags/help.h"
#include "pome/host/report.h"

namespace pome::apps {
namespace {

std::string overview() {
  std::string text =
      "usage: pome bench BENCHMARK [OPTION…]\n\nSGLang's benchmarks, with its options and its "
      "results.\n\n";
  for (const Benchmark& benchmark : benchmarks()) {
    text += fmt::format("  {:<20} {}\n", benchmark.name, benchmark.summary);
  }
  return text + "\n  pome bench BENCHMARK --help says more; docs/benchmarks.md has examples.\n";
}

std::string help_of(const Benchmark& benchmark, bool all) {
  return fmt::format("usage: pome bench {} [OPTION…]{}\n\n{}\n\n", benchmark.name,
                     benchmark.launch ? " [LAUNCH FLAG…]" : "", benchmark.summary) +
         bench_options_help(benchmark.rows()) + (benchmark.launch ? flags_help(all) : "");
}

}  // namespace

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> all = {
      {"serving", "requests at a rate to a running server: times to tokens, throughput",
       serving_rows, false, serving_benchmark},
      {"one-batch-server", "one batch after the other to a running server", one_batch_server_rows,
       false, one_batch_server_benchmark},
      {"offline-throughput", "many prompts in the engine of this process, without HTTP",
       offline_throughput_rows, true, offline_throughput_benchmark},
      {"one-batch", "one batch in a model alone, step by step, without engine or server",
       one_batch_rows, true, one_batch_benchmark},
  };
  return all;
}

int bench_command(const std::vector<std::string>& words) {
  if (words.empty()) {
    return show_usage(overview(), false);
  }
  if (words[0] == "--help" || words[0] == "-h") {
    return show_usage(overview(), true);
  }
  for (const Benchmark& benchmark : benchmarks()) {
    if (benchmark.name != words[0]) {
      continue;
    }
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    for (const std::string& word : rest) {
      if (word == "--help" || word == "-h" || word == "--help-all") {
        return show_usage(help_of(benchmark, word == "--help-all"), true);
      }
    }
    return benchmark.run(rest);
  }
  return misused(
      invalid(fmt::format("there is no benchmark '{}'; `pome bench --help` lists them", words[0])));
}

}  // namespace pome::apps
