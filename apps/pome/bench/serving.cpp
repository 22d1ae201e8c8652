#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <map>

#include "base/log.h"
#include "pome/bench/bench.h"
#include "pome/bench/load/figures.h"
#include "pome/bench/shared_options.h"

namespace pome::apps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kWarmUpOutputTokens = 32;

struct Run {
  std::string backend;
  Wire wire = Wire::native;
  std::string model;
  bool streamed = true;
  bool ignore_eos = true;
  double temperature = 0.0;
  double top_p = 1.0;
  json::object extra;
  json::object scores;  // what native requests say of log probabilities
  int32_t warm_up_requests = 1;
  bool flush_cache = false;
  bool progress = true;
  bool cache_report = false;
  std::optional<ProfileOrder> profile;
  LoadOptions load;
};

json::object native_body(const Run& run, const DatasetRow& row) {
  json::object sampling{{"temperature", run.temperature},
                        {"max_new_tokens", row.output_tokens},
                        {"ignore_eos", run.ignore_eos}};
  if (run.top_p < 1.0) {
    sampling["top_p"] = run.top_p;
  }
  json::object body{{"sampling_params", std::move(sampling)}, {"stream", run.streamed}};
  if (row.tokens.empty()) {
    body["text"] = row.text;
  } else {
    body["input_ids"] = json::array(row.tokens.begin(), row.tokens.end());
  }
  for (const auto& [key, value] : run.scores) {
    body[key] = value;
  }
  return body;
}

json::object openai_body(const Run& run, const DatasetRow& row) {
  json::object body{{"model", run.model},
                    {"temperature", run.temperature},
                    {"max_tokens", row.output_tokens},
                    {"stream", run.streamed},
                    {"ignore_eos", run.ignore_eos}};
  if (run.top_p < 1.0) {
    body["top_p"] = run.top_p;
  }
  if (run.streamed) {
    body["stream_options"] = json::object{{"include_usage", true}};
  }
  if (run.wire == Wire::chat) {
    body["messages"] = json::array{json::object{{"role", "user"}, {"content", row.text}}};
  } else if (row.tokens.empty()) {
    body["prompt"] = row.text;
  } else {
    body["prompt"] = json::array(row.tokens.begin(), row.tokens.end());
  }
  return body;
}

std::string body_of(const Run& run, const DatasetRow& row) {
  json::object body = run.wire == Wire::native ? native_body(run, row) : openai_body(run, row);
  for (const auto& [key, value] : run.extra) {
    body[key] = value;
  }
  return to_string(json::value(std::move(body)));
}

Status warm_up(const Target& target, const Run& run, DatasetRow row) {
  fmt::print("Starting warmup with {} sequences...\n", run.warm_up_requests);
  if (run.warm_up_requests == 0) {
    return {};
  }
  row.output_tokens = std::min(row.output_tokens, kWarmUpOutputTokens);
  if (!row.shared_prefix.empty() && row.tokens.empty()) {
    row.text = row.shared_prefix;
  }
  const std::vector<std::string> bodies(static_cast<size_t>(run.warm_up_requests),
                                        body_of(run, row));
  const auto outcomes =
      run_load(target.client(), run.wire, bodies, {.together_max = run.load.together_max});
  for (const RequestOutcome& outcome : outcomes) {
    if (outcome.ok) {
      fmt::print("Warmup completed with {} sequences. Starting main benchmark run...\n",
                 run.warm_up_requests);
      return {};
    }
  }
  return Error{ErrorCode::unavailable,
               fmt::format("the warm-up failed: {}", outcomes.front().error), ""};
}

// A line that is drawn over on a terminal; nothing elsewhere.
void show_progress(size_t done, size_t all) {
  fmt::print(stderr, "\r{}/{} requests{}", done, all, done == all ? "\n" : "");
}

struct Measured {
  std::vector<RequestOutcome> outcomes;
  double duration_s = 0.0;
};

Result<Measured> measure(const Target& target, Run run, const std::vector<DatasetRow>& rows) {
  std::vector<std::string> bodies;
  for (const DatasetRow& row : rows) {
    bodies.push_back(body_of(run, row));
  }
  if (run.progress && ::isatty(STDERR_FILENO) == 1) {
    run.load.on_end = [all = rows.size()](size_t done, const RequestOutcome&) {
      show_progress(done, all);
    };
  }
  if (run.profile) {
    const auto started = target.start_profile(*run.profile);
    if (!started) {
      return started.error();
    }
    fmt::print("Starting profiler...\n{}", *started);
  }
  const Clock::time_point start = Clock::now();
  Measured measured{run_load(target.client(), run.wire, bodies, run.load), 0.0};
  measured.duration_s = std::chrono::duration<double>(Clock::now() - start).count();
  if (run.profile && !run.profile->steps) {
    const auto stopped = target.stop_profile();
    if (!stopped) {
      return stopped.error();
    }
    fmt::print("Stopping profiler...\n{}", *stopped);
  }
  return measured;
}

// Different failures, each with how often it came.
void print_failures(const std::vector<RequestOutcome>& outcomes) {
  std::map<std::string, int> counts;
  for (const RequestOutcome& outcome : outcomes) {
    if (!outcome.ok) {
      ++counts[outcome.error];
    }
  }
  for (const auto& [error, count] : counts) {
    fmt::print(stderr, "pome: {} of {} requests failed: {}\n", count, outcomes.size(), error);
  }
}

std::optional<int64_t> count_again(const PromptTokens& tokens,
                                   const std::vector<RequestOutcome>& outcomes) {
  std::vector<std::string> texts;
  for (const RequestOutcome& outcome : outcomes) {
    if (outcome.ok && !outcome.text.empty()) {
      texts.push_back(outcome.text);
    }
  }
  const auto lists = tokens.encode(texts, false);
  if (!lists) {
    log::warning("the answers cannot be tokenized again: {}", lists.error().message);
    return std::nullopt;
  }
  int64_t sum = 0;
  for (const auto& list : *lists) {
    sum += static_cast<int64_t>(list.size());
  }
  return sum;
}

std::string default_file(const Run& run, const DatasetOptions& dataset) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char day[8];
  std::strftime(day, sizeof day, "%m%d", &local);
  const std::string kind =
      dataset.name.starts_with("random")
          ? fmt::format("{}_{}", dataset.random_input_tokens, dataset.random_output_tokens)
          : dataset.name;
  return fmt::format("{}_{}_{}_{}.jsonl", run.backend, day, dataset.prompts, kind);
}

json::object result_of(const Run& run, const DatasetOptions& dataset, const BenchOptions& options,
                       const Target& target, const LoadFigures& figures) {
  const auto given = [&](const char* name) {
    return options.given(name) ? json::value(options.text(name)) : json::value(nullptr);
  };
  json::object out{
      {"tag", given("tag")},
      {"backend", run.backend},
      {"dataset_name", dataset.name},
      {"request_rate",
       run.load.requests_per_s > 0 ? json::value(run.load.requests_per_s) : json::value("inf")},
      {"max_concurrency",
       run.load.together_max > 0 ? json::value(run.load.together_max) : json::value(nullptr)},
      {"sharegpt_output_len", dataset.sharegpt_output_tokens
                                  ? json::value(*dataset.sharegpt_output_tokens)
                                  : json::value(nullptr)},
      {"random_input_len", dataset.random_input_tokens},
      {"random_output_len", dataset.random_output_tokens},
      {"random_range_ratio", dataset.random_range_ratio},
      {"server_info", target.info().empty() ? json::value(nullptr) : json::value(target.info())}};
  for (auto& [key, value] : load_fields(figures)) {
    out[key] = std::move(value);
  }
  if (run.cache_report) {
    const auto whole = static_cast<double>(std::max<int64_t>(figures.prompt_tokens_served, 1));
    out["cache_report"] =
        json::object{{"total_prompt_tokens", figures.prompt_tokens_served},
                     {"total_cached_tokens", figures.cached_tokens},
                     {"cache_hit_rate_pct",
                      std::round(1e4 * static_cast<double>(figures.cached_tokens) / whole) / 1e2}};
  }
  return out;
}

json::object scores_of(BenchOptions& options) {
  json::object scores;
  if (options.on("return-logprob")) {
    scores["return_logprob"] = true;
    scores["top_logprobs_num"] = options.whole("top-logprobs-num", 0);
    scores["logprob_start_len"] = options.whole("logprob-start-len", -1);
    const auto ids = options.wholes("token-ids-logprob", 0);
    if (!ids.empty()) {
      scores["token_ids_logprob"] = json::array(ids.begin(), ids.end());
    }
  }
  return scores;
}

double rate_of(BenchOptions& options) {
  const std::string rate = options.text("request-rate");
  return rate == "inf" ? 0.0 : options.number("request-rate", 1e-6, 1e9);
}

Run run_of(BenchOptions& options) {
  Run run;
  run.backend = options.text("backend");
  run.wire = wire_of(run.backend);
  run.streamed = !options.on("disable-stream");
  run.ignore_eos = !options.on("disable-ignore-eos");
  run.temperature = options.number("temperature", 0, 100);
  run.top_p = options.number("top-p", 0, 1);
  run.extra = options.object("extra-request-body");
  run.scores = scores_of(options);
  run.warm_up_requests = options.whole("warmup-requests", 0);
  run.flush_cache = options.on("flush-cache");
  run.progress = !options.on("disable-tqdm");
  run.cache_report = options.on("cache-report");
  run.load.requests_per_s = rate_of(options);
  run.load.together_max = options.whole_if_given("max-concurrency", 1).value_or(0);
  run.load.seed = static_cast<uint64_t>(options.whole("seed", 0));
  if (options.on("profile")) {
    run.profile = profile_order(options);
  }
  if (run.wire != Wire::native && !run.scores.empty()) {
    options.fail("backend", "sglang, because --return-logprob asks for its log probabilities");
  }
  if (run.wire == Wire::chat &&
      (options.on("tokenize-prompt") || options.text("dataset-name") == "random-ids")) {
    options.fail("backend", "sglang or sglang-oai, because a chat takes no token ids");
  }
  return run;
}

Status run_benchmark(BenchOptions& options) {
  Run run = run_of(options);
  POME_TRY(options.status());
  auto dataset = dataset_options(options);
  if (!dataset) {
    return dataset.error();
  }
  dataset->as_tokens = options.on("tokenize-prompt");
  auto target = open_target(options);
  if (!target) {
    return target.error();
  }
  run.model = options.given("served-model-name") ? options.text("served-model-name")
              : options.given("model")           ? options.text("model")
                                                 : (*target)->model();
  const auto tokens = (*target)->tokens();
  const auto rows = make_dataset(*dataset, *tokens);
  if (!rows) {
    return rows.error();
  }
  POME_TRY(warm_up(**target, run, rows->front()));
  if (run.flush_cache) {
    POME_TRY((*target)->flush_cache());
  }
  auto measured = measure(**target, run, *rows);
  if (!measured) {
    return measured.error();
  }
  (*target)->refresh();
  LoadFigures figures = figures_of(*rows, measured->outcomes, measured->duration_s);
  figures.output_tokens_read_again = count_again(*tokens, measured->outcomes);
  figures.accept_length = (*target)->state("avg_spec_accept_length");
  fmt::print("{}", load_table({.backend = run.backend,
                               .requests_per_s = run.load.requests_per_s,
                               .together_max = run.load.together_max,
                               .cache_report = run.cache_report},
                              figures));
  print_failures(measured->outcomes);
  json::object result = result_of(run, *dataset, options, **target, figures);
  if (options.on("output-details")) {
    for (auto& [key, value] : load_details(measured->outcomes)) {
      result[key] = std::move(value);
    }
  }
  const std::string file = options.text("output-file");
  POME_TRY(append_line(file.empty() ? default_file(run, *dataset) : file, result));
  if (figures.completed == 0) {
    return Error{ErrorCode::unavailable, "no request was answered", ""};
  }
  return {};
}

std::vector<Flag> own_rows() {
  using enum Kind;
  const std::string recorded =
      "the data sets are sharegpt, random, random-ids and "
      "generated-shared-prefix";
  const std::string details = "--output-details writes every request to the result file";
  return {
      bench_option({"--backend"}, text, "NAME", "sglang",
                   "Which endpoint: sglang and sglang-native POST /generate, sglang-oai POST "
                   "/v1/completions, sglang-oai-chat POST /v1/chat/completions; vllm and lmdeploy "
                   "are those of OpenAI too.",
                   {"sglang", "sglang-native", "sglang-oai", "sglang-oai-chat", "vllm", "vllm-chat",
                    "lmdeploy", "lmdeploy-chat"}),
      bench_option({"--model"}, text, "NAME", "",
                   "The model's name in requests. Default: the first of /v1/models."),
      bench_option({"--served-model-name"}, text, "NAME", "", "The same, and wins over --model."),
      bench_option({"--request-rate"}, number, "PER_SECOND", "inf",
                   "Requests arrive at this rate, as a Poisson process; inf sends all at once."),
      bench_option({"--max-concurrency"}, integer, "COUNT", "",
                   "No more requests than this wait for their answers together."),
      bench_option({"--output-file"}, text, "FILE", "",
                   "One line of JSON is appended. Default: a name made of backend, day and load."),
      bench_option({"--output-details"}, toggle, "", "",
                   "Lengths, times, texts and errors of every request too."),
      bench_option({"--tag"}, text, "TEXT", "", "Is written to the result."),
      bench_option({"--disable-tqdm"}, toggle, "", "", "Show no progress."),
      bench_option({"--disable-stream"}, toggle, "", "", "Answers come whole."),
      bench_option({"--disable-ignore-eos"}, toggle, "", "",
                   "The model may end its answers before their length."),
      bench_option({"--temperature"}, number, "T", "0", "0 is greedy."),
      bench_option({"--top-p"}, number, "P", "1", "As in requests."),
      bench_option({"--return-logprob"}, toggle, "", "", "Native requests ask for them."),
      bench_option({"--top-logprobs-num"}, integer, "COUNT", "0", "With --return-logprob."),
      bench_option({"--token-ids-logprob"}, list, "TOKEN…", "", "With --return-logprob."),
      bench_option({"--logprob-start-len"}, integer, "POSITION", "-1", "With --return-logprob."),
      bench_option({"--extra-request-body"}, text, "JSON", "",
                   "An object whose fields are added to each request."),
      bench_option({"--cache-report"}, toggle, "", "", "How many prompt tokens were cached."),
      bench_option({"--flush-cache"}, toggle, "", "", "Empty the prefix cache after the warm-up."),
      bench_option({"--warmup-requests"}, integer, "COUNT", "1",
                   "The first prompt is sent so often before the load."),
      bench_option({"--tokenize-prompt"}, toggle, "", "", "Prompts are sent as token ids."),
      idle_option({"--tokenizer"}, text, "the served model's own counts, by POST /tokenize"),
      idle_option({"--flush-cache-timeout"}, number, "the cache is emptied at once"),
      refused_option({"--print-requests"}, toggle, details),
      refused_option({"--plot-throughput"}, toggle, details),
      refused_option({"--return-routed-experts"}, toggle, "replies do not carry them"),
      refused_option({"--use-trace-timestamps"}, toggle, recorded),
      refused_option({"--mooncake-slowdown-factor"}, number, recorded),
      refused_option({"--mooncake-num-rounds"}, integer, recorded),
      refused_option({"--mooncake-workload"}, text, recorded),
      refused_option({"--dataset-offset"}, integer, recorded),
      refused_option({"--agentic-max-turns"}, integer, recorded),
      refused_option({"--speed-bench-category"}, text, recorded),
      refused_option({"--speed-bench-output-len"}, integer, recorded),
  };
}

}  // namespace

std::vector<Flag> serving_rows() {
  std::vector<Flag> all = target_rows();
  for (auto part : {own_rows(), dataset_rows("sharegpt"), profile_rows(""), foreign_rows()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

int serving_benchmark(const std::vector<std::string>& words) {
  return run_with_options(words, serving_rows(), false, run_benchmark);
}

}  // namespace pome::apps
