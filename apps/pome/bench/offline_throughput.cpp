#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "pome/bench/bench.h"
#include "pome/bench/load/engine_client.h"
#include "pome/bench/load/figures.h"
#include "pome/bench/profile.h"
#include "pome/bench/shared_options.h"
#include "pome/host/environment.h"
#include "pome/model/open_model.h"
#include "pome/talk/answer_flags.h"

namespace pome::apps {
namespace {

constexpr int32_t kWarmUpPrompts = 16;
constexpr int32_t kWarmUpInputTokens = 256;
constexpr int32_t kWarmUpOutputTokens = 16;

struct Figures {
  int32_t requests = 0;
  double latency_s = 0.0;
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  double last_gen_throughput = 0.0;

  double per_s(int64_t amount) const { return static_cast<double>(amount) / latency_s; }
};

struct Sampling {
  sampling::Params params = {};
  bool ignore_eos = true;
};

engine::Job job_of(const DatasetRow& row, const Sampling& sampling,
                   const engine::ModelInfo& model) {
  engine::Job job;
  job.segments = {{.tokens = row.tokens}};
  job.max_tokens = row.output_tokens;
  job.ignore_eos = sampling.ignore_eos;
  job.sampling = sampling.params;
  if (!sampling.ignore_eos) {
    job.stop_tokens = model.eos_tokens;
  }
  return job;
}

Figures run_once(EngineClient& client, const std::vector<DatasetRow>& rows,
                 const Sampling& sampling) {
  const Clock::time_point start = Clock::now();
  std::vector<SequenceId> sequences;
  for (const DatasetRow& row : rows) {
    sequences.push_back(client.send(job_of(row, sampling, client.model())));
  }
  Figures figures{.requests = static_cast<int32_t>(rows.size())};
  for (const SequenceId sequence : sequences) {
    figures.output_tokens += static_cast<int64_t>(client.wait(sequence).tokens.size());
  }
  figures.latency_s = seconds_between(start, Clock::now());
  for (const DatasetRow& row : rows) {
    figures.input_tokens += row.prompt_tokens;
  }
  figures.last_gen_throughput = client.stats().last_generated_tokens_per_s;
  return figures;
}

std::string table_of(const Figures& f) {
  return "\n" + table_banner(" Offline Throughput Benchmark Result ", '=') +
         table_line("Backend:", "engine") +
         table_line("Successful requests:", int64_t{f.requests}) +
         table_line("Benchmark duration (s):", f.latency_s) +
         table_line("Total input tokens:", f.input_tokens) +
         table_line("Total generated tokens:", f.output_tokens) +
         table_line("Last generation throughput (tok/s):", f.last_gen_throughput) +
         table_line("Request throughput (req/s):", f.per_s(f.requests)) +
         table_line("Input token throughput (tok/s):", f.per_s(f.input_tokens)) +
         table_line("Output token throughput (tok/s):", f.per_s(f.output_tokens)) +
         table_line("Total token throughput (tok/s):", f.per_s(f.input_tokens + f.output_tokens)) +
         std::string(50, '=') + "\n";
}

json::object fields_of(const Figures& f) {
  return {{"backend", "engine"},
          {"successful_requests", f.requests},
          {"total_latency", f.latency_s},
          {"total_input_tokens", f.input_tokens},
          {"total_output_tokens", f.output_tokens},
          {"last_gen_throughput", f.last_gen_throughput},
          {"request_throughput", f.per_s(f.requests)},
          {"input_throughput", f.per_s(f.input_tokens)},
          {"output_throughput", f.per_s(f.output_tokens)},
          {"total_throughput", f.per_s(f.input_tokens + f.output_tokens)}};
}

// The sampling fields of --extra-request-body; greedy without them.
Result<Sampling> sampling_of(BenchOptions& options) {
  Sampling out{.ignore_eos = !options.on("disable-ignore-eos")};
  out.params.temperature = 0.0f;
  const json::object extra = options.object("extra-request-body");
  POME_TRY(options.status());
  for (const auto& [key, value] : extra) {
    const auto number = as_double(value);
    if (key == "temperature" && number && *number >= 0) {
      out.params.temperature = static_cast<float>(*number);
    } else if (key == "top_p" && number && *number >= 0 && *number <= 1) {
      out.params.top_p = static_cast<float>(*number);
    } else if (key == "top_k" && as_int(value)) {
      out.params.top_k = static_cast<int32_t>(*as_int(value));
    } else if (key == "min_p" && number && *number >= 0 && *number <= 1) {
      out.params.min_p = static_cast<float>(*number);
    } else if (key == "ignore_eos" && value.is_bool()) {
      out.ignore_eos = value.get_bool();
    } else {
      return invalid(
          fmt::format("--extra-request-body: {} {} is not one of temperature, top_p, "
                      "top_k, min_p and ignore_eos; `pome bench serving` sends any field",
                      std::string_view(key), to_string(value)),
          "extra-request-body");
    }
  }
  return out;
}

// Every request of the load may wait, whatever a server would allow.
GivenFlags with_room_for(GivenFlags flags, const DatasetOptions& dataset) {
  const bool given = std::any_of(flags.begin(), flags.end(), [](const auto& flag) {
    return flag.first == "--max-queued-requests";
  });
  if (!given) {
    const int64_t rows = dataset.name == "generated-shared-prefix"
                             ? int64_t{dataset.groups} * dataset.prompts_per_group
                             : dataset.prompts;
    flags.push_back({"--max-queued-requests", {std::to_string(rows + kWarmUpPrompts)}});
  }
  return flags;
}

Status measure(BenchOptions& options, EngineClient& client, const PromptTokens& tokens,
               const DatasetOptions& dataset, const Sampling& sampling, Recording& recording) {
  const auto rows = make_dataset(dataset, tokens);
  if (!rows) {
    return rows.error();
  }
  if (!options.on("skip-warmup")) {
    fmt::print("Warmup...\n");
    DatasetOptions warm = dataset;
    warm.name = "random-ids";
    warm.prompts = std::min(static_cast<int32_t>(rows->size()), kWarmUpPrompts);
    warm.random_input_tokens = std::min(kWarmUpInputTokens, client.model().context_tokens / 2);
    warm.random_output_tokens = std::min(kWarmUpOutputTokens, client.model().context_tokens / 4);
    warm.random_range_ratio = 1.0;
    const auto warm_rows = make_dataset(warm, tokens);
    if (!warm_rows) {
      return warm_rows.error();
    }
    run_once(client, *warm_rows, sampling);
    client.flush_cache();
  }
  fmt::print("Benchmark...\n");
  POME_TRY(recording.begin("offline"));
  const Figures figures = run_once(client, *rows, sampling);
  recording.end();
  if (const std::string file = options.text("result-filename"); !file.empty()) {
    POME_TRY(append_line(file, fields_of(figures)));
  }
  fmt::print("{}", table_of(figures));
  return {};
}

Status run_benchmark(BenchOptions& options) {
  const auto sampling = sampling_of(options);
  if (!sampling) {
    return sampling.error();
  }
  auto dataset = dataset_options(options);
  if (!dataset) {
    return dataset.error();
  }
  dataset->as_tokens = true;
  const auto settings = Settings::resolve(
      with_room_for(with_default_model(options.line().flags), *dataset), environment);
  if (!settings) {
    return settings.error();
  }
  log::set_level(log::parse_level(settings->text("--log-level")).value());
  telemetry::Trace trace;  // outlives the engine
  auto recording = Recording::make(options, trace);
  if (!recording) {
    return recording.error();
  }
  const std::atomic<bool> stop{false};
  auto model = open_model(*settings, hub::settings_from(environment), stop, &trace);
  if (!model) {
    return model.error();
  }
  const auto text = model->text;
  const auto client = EngineClient::start(std::move(model->engine));
  if (!client) {
    return client.error();
  }
  const auto tokens = local_tokens(text, (*client)->model().vocab_tokens);
  return measure(options, **client, *tokens, *dataset, *sampling, *recording);
}

}  // namespace

std::vector<Flag> offline_throughput_rows() {
  using enum Kind;
  std::vector<Flag> all = {
      bench_option({"--backend"}, text, "NAME", "engine",
                   "The engine in this process. For a server there is `pome bench serving`.",
                   {"engine"}),
      bench_option({"--result-filename"}, text, "FILE", "", "One line of JSON is appended."),
      bench_option({"--skip-warmup"}, toggle, "", "",
                   "Do not run up to 16 prompts of 256 tokens before."),
      bench_option({"--disable-ignore-eos"}, toggle, "", "",
                   "The model may end its answers before their length."),
      bench_option({"--extra-request-body"}, text, "JSON", "",
                   "Sampling: an object with temperature, top_p, top_k, min_p, ignore_eos."),
      refused_option({"--do-not-exit"}, toggle, "a recorder that launches pome sees it whole"),
  };
  for (auto part : {dataset_rows("sharegpt"), recording_rows(), foreign_rows()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return without_launch_flags(std::move(all));
}

int offline_throughput_benchmark(const std::vector<std::string>& words) {
  return run_with_options(words, offline_throughput_rows(), true, run_benchmark);
}

}  // namespace pome::apps
