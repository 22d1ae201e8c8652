#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "pome/bench/bench.h"
#include "pome/bench/load/batch.h"
#include "pome/bench/shared_options.h"

namespace pome::apps {
namespace {

constexpr int32_t kWarmUpOutputTokens = 16;

struct CaseResult {
  BatchShape shape;
  BatchOutcome outcome = {};
  int64_t input_tokens = 0;
  double last_gen_throughput = -1.0;
  double accept_length = -1.0;
  std::optional<double> cache_hit_rate = {};

  double input_throughput() const {
    return static_cast<double>(input_tokens) / outcome.last_ttft_s;
  }
  // 0 where every answer's first token is its last.
  double output_throughput() const {
    const double decode_s = outcome.latency_s - outcome.last_ttft_s;
    return decode_s > 0 ? static_cast<double>(outcome.output_tokens) / decode_s : 0.0;
  }
  double overall_throughput() const {
    return static_cast<double>(input_tokens + outcome.output_tokens) / outcome.latency_s;
  }
};

struct Run {
  std::string name;
  DatasetOptions dataset;
  std::vector<Token> fixed_prompt;
  json::object fields;  // of the request, beside sampling_params
  double temperature = 0.0;
  bool ignore_eos = true;
  double input_step = 0.0;
  double cache_hit_rate = 0.0;
  std::optional<ProfileOrder> profile;
};

double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

Result<std::vector<std::vector<Token>>> prompts_of(const Run& run, const BatchShape& shape,
                                                   const PromptTokens& tokens) {
  const auto batch = static_cast<size_t>(shape.batch);
  if (!run.fixed_prompt.empty()) {
    return std::vector<std::vector<Token>>(batch, run.fixed_prompt);
  }
  DatasetOptions dataset = run.dataset;
  dataset.prompts = shape.batch;
  dataset.as_tokens = true;
  dataset.random_range_ratio = 1.0;
  // The longest that a step between the prompts of the batch makes.
  const double reach = 1.0 + run.input_step * (shape.batch - 1) / 2.0;
  dataset.random_input_tokens = static_cast<int32_t>(std::ceil(shape.input * reach));
  dataset.groups = std::min(dataset.groups, shape.batch);
  dataset.prompts_per_group = (shape.batch + dataset.groups - 1) / dataset.groups;
  auto rows = make_dataset(dataset, tokens);
  if (!rows) {
    return rows.error();
  }
  if (rows->size() < batch) {
    return invalid(fmt::format("--dataset-name {} has {} prompts for a batch of {}", dataset.name,
                               rows->size(), batch));
  }
  std::vector<std::vector<Token>> prompts;
  for (size_t i = 0; i < batch; ++i) {
    prompts.push_back(std::move((*rows)[i].tokens));
    if (dataset.name.starts_with("random")) {
      const double place = static_cast<double>(i) - (shape.batch - 1) / 2.0;
      const auto length = static_cast<size_t>(shape.input * (1.0 + run.input_step * place));
      prompts.back().resize(std::clamp(length, size_t{1}, prompts.back().size()));
    }
  }
  return prompts;
}

json::object fields_of(const Run& run, int32_t output_tokens) {
  json::object fields = run.fields;
  fields["sampling_params"] = json::object{{"temperature", run.temperature},
                                           {"max_new_tokens", output_tokens},
                                           {"ignore_eos", run.ignore_eos}};
  return fields;
}

// Puts the first part of each prompt into the server's cache.
Status fill_cache(const Target& target, const Run& run,
                  const std::vector<std::vector<Token>>& prompts) {
  std::vector<std::vector<Token>> parts;
  for (const auto& prompt : prompts) {
    const auto length = static_cast<long>(static_cast<double>(prompt.size()) * run.cache_hit_rate);
    if (length > 0) {
      parts.emplace_back(prompt.begin(), prompt.begin() + length);
    }
  }
  if (parts.empty()) {
    return {};
  }
  fmt::print("Warming up cache with {:.1f}% hit rate\n", 100 * run.cache_hit_rate);
  const auto outcome = run_batch(target.client(), parts, fields_of(run, 1));
  return outcome ? Status() : Status(outcome.error());
}

Result<CaseResult> run_case(Target& target, const Run& run, const BatchShape& shape,
                            const PromptTokens& tokens) {
  POME_TRY(target.flush_cache());
  const auto prompts = prompts_of(run, shape, tokens);
  if (!prompts) {
    return prompts.error();
  }
  CaseResult result{.shape = shape};
  for (const auto& prompt : *prompts) {
    result.input_tokens += static_cast<int64_t>(prompt.size());
  }
  result.shape.input = static_cast<int32_t>(result.input_tokens / shape.batch);
  POME_TRY(fill_cache(target, run, *prompts));
  if (run.profile) {
    const auto started = target.start_profile(*run.profile);
    if (!started) {
      return started.error();
    }
    fmt::print("{}", *started);
  }
  const auto before = target.cache_count();
  const auto outcome = run_batch(target.client(), *prompts, fields_of(run, shape.output));
  if (!outcome) {
    return outcome.error();
  }
  const auto after = target.cache_count();
  if (run.profile) {
    const auto stopped = target.stop_profile();  // an error where its steps have ended it
    fmt::print("{}", stopped ? *stopped : std::string());
  }
  result.outcome = *outcome;
  target.refresh();
  result.last_gen_throughput = target.state("last_gen_throughput").value_or(-1.0);
  result.accept_length = target.state("avg_spec_accept_length").value_or(-1.0);
  if (before && after && after->prompt_tokens > before->prompt_tokens) {
    result.cache_hit_rate = (after->cached_tokens - before->cached_tokens) /
                            (after->prompt_tokens - before->prompt_tokens);
  }
  return result;
}

void print_case(const CaseResult& result, bool ignore_eos) {
  fmt::print("batch size: {}\ninput_len: {}\noutput_len: {}\nlatency: {:.2f} s\n",
             result.shape.batch, result.shape.input, result.shape.output, result.outcome.latency_s);
  fmt::print("input throughput: {:.2f} tok/s\n", result.input_throughput());
  if (result.shape.output != 1) {
    fmt::print("output throughput: {:.2f} tok/s\n", result.output_throughput());
  }
  fmt::print("last_ttft: {:.2f} s\nlast generation throughput: {:.2f} tok/s\n",
             result.outcome.last_ttft_s, result.last_gen_throughput);
  if (result.accept_length > 0) {
    fmt::print("acc_length: {:.2f} \n", result.accept_length);
  }
  if (result.cache_hit_rate) {
    fmt::print("cache hit rate: {:.4f}\n", *result.cache_hit_rate);
  }
  if (!ignore_eos) {
    fmt::print("total output tokens: {} (requested {})\nearly-stopped requests: {}/{}\n",
               result.outcome.output_tokens, result.shape.batch * result.shape.output,
               result.outcome.ended_early, result.shape.batch);
  }
}

json::object fields_of(const CaseResult& result, const std::string& run_name) {
  return {{"run_name", run_name},
          {"batch_size", result.shape.batch},
          {"input_len", result.shape.input},
          {"output_len", result.shape.output},
          {"latency", rounded(result.outcome.latency_s, 4)},
          {"input_throughput", rounded(result.input_throughput(), 2)},
          {"output_throughput", rounded(result.output_throughput(), 2)},
          {"overall_throughput", rounded(result.overall_throughput(), 2)},
          {"last_ttft", rounded(result.outcome.last_ttft_s, 4)},
          {"last_gen_throughput", rounded(result.last_gen_throughput, 2)},
          {"acc_length", rounded(result.accept_length, 2)},
          {"total_output_tokens", result.outcome.output_tokens},
          {"num_early_stopped", result.outcome.ended_early},
          {"cache_hit_rate", result.cache_hit_rate ? json::value(rounded(*result.cache_hit_rate, 4))
                                                   : json::value(nullptr)}};
}

// A table in GitHub's Markdown, as SGLang reports; costs where the machine's price is known.
void print_report(const std::vector<CaseResult>& results, double dollars_per_hour) {
  const auto cost = [&](double tokens_per_s) {
    return dollars_per_hour > 0 && tokens_per_s > 0
               ? fmt::format("{:.2f}", 1e6 / tokens_per_s / 3600 * dollars_per_hour)
               : std::string("n/a");
  };
  fmt::print(
      "\n| batch size | input len | latency (s) | input throughput (tok/s) | output throughput "
      "(tok/s) | acc length | ITL (ms) | input cost ($/1M) | output cost ($/1M) | cache hit rate "
      "|\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const CaseResult& r : results) {
    const double output = r.output_throughput();
    fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {} | {} | {} | {} | {} |\n", r.shape.batch,
               r.shape.input, r.outcome.latency_s, r.input_throughput(), output,
               r.accept_length > 0 ? fmt::format("{:.2f}", r.accept_length) : "n/a",
               output > 0 ? fmt::format("{:.2f}", 1000 * r.shape.batch / output) : "n/a",
               cost(r.input_throughput()), cost(output),
               r.cache_hit_rate ? fmt::format("{:.4f}", *r.cache_hit_rate) : "n/a");
  }
}

bool fits(const BatchShape& shape, const Target& target, bool several_batches) {
  const auto capacity = target.token_capacity();
  const int64_t wanted = int64_t{shape.batch} * (shape.input + shape.output);
  if (capacity && wanted > *capacity) {
    fmt::print(
        "======== Skip benchmark batch_size={} * ({} + {}) = {} tokens > {} due to kv cache "
        "limit ========\n",
        shape.batch, shape.input, shape.output, wanted, *capacity);
    return false;
  }
  const auto together = target.running_requests_max();
  if (together && shape.batch > *together && !several_batches) {
    fmt::print(
        "======== Skip benchmark batch_size={} > {} due to max running requests limit: "
        "serve with a larger --max-running-requests ========\n",
        shape.batch, *together);
    return false;
  }
  return true;
}

Result<Run> run_of(BenchOptions& options, const Target& target) {
  Run run;
  run.name = options.text("run-name");
  run.dataset.name = options.text("dataset-name");
  run.dataset.path = options.text("dataset-path");
  run.dataset.seed = static_cast<uint64_t>(options.whole("seed", 0));
  run.dataset.groups = options.whole("gsp-num-groups", 1);
  run.dataset.system_prompt_tokens = options.whole("gsp-system-prompt-len", 1);
  run.dataset.question_tokens = options.whole("gsp-question-len", 1);
  run.dataset.groups_in_order = true;
  run.temperature = options.number("temperature", 0, 100);
  run.ignore_eos = !options.on("disable-ignore-eos");
  run.input_step = options.number("input-len-step-percentage", 0, 1);
  run.cache_hit_rate = options.number("cache-hit-rate", 0, 1);
  if (options.on("return-logprob")) {
    run.fields["return_logprob"] = true;
  }
  if (options.on("profile")) {
    run.profile = profile_order(options);
  }
  if (run.dataset.name == "sharegpt" && run.dataset.path.empty()) {
    options.fail("dataset-path", "a file in ShareGPT's form");
  }
  POME_TRY(options.status());
  if (const std::string file = options.text("fixed-prompt-file"); !file.empty()) {
    std::ifstream in(file, std::ios::binary);
    const std::string prompt{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const auto tokens = target.tokens()->encode({prompt}, true);
    if (prompt.empty() || !tokens) {
      return prompt.empty() ? invalid(fmt::format("--fixed-prompt-file: nothing in '{}'", file))
                            : tokens.error();
    }
    run.fixed_prompt = tokens->front();
  }
  return run;
}

Status run_benchmark(BenchOptions& options) {
  const std::vector<BatchShape> cases = batch_shapes(options);
  const double price = options.number("hourly-cost", 0, 1e6);
  auto target = open_target(options);
  if (!target) {
    return target.error();
  }
  const auto run = run_of(options, **target);
  if (!run) {
    return run.error();
  }
  const auto tokens = (*target)->tokens();
  if (!options.on("skip-warmup") && fits(cases.front(), **target, true)) {
    fmt::print("Warmup ...\n");
    Run quiet = *run;
    quiet.profile.reset();
    BatchShape shape = cases.front();
    shape.output = std::min(shape.output, kWarmUpOutputTokens);
    const auto warm = run_case(**target, quiet, shape, *tokens);
    if (!warm) {
      return warm.error();
    }
  }
  fmt::print("Benchmark ...\n");
  std::vector<CaseResult> results;
  const std::string file = options.text("result-filename");
  for (const BatchShape& shape : cases) {
    if (!fits(shape, **target, options.on("enable-multi-batch"))) {
      continue;
    }
    const auto result = run_case(**target, *run, shape, *tokens);
    if (!result) {
      return result.error();
    }
    print_case(*result, run->ignore_eos);
    if (!file.empty()) {
      POME_TRY(append_line(file, fields_of(*result, run->name)));
    }
    results.push_back(*result);
  }
  if (options.on("show-report")) {
    print_report(results, price);
  }
  fmt::print("\nResults are saved to {}\n", file);
  return {};
}

std::vector<Flag> own_rows() {
  using enum Kind;
  const std::string served = "the server's own model and tokenizer are measured";
  return {
      bench_option({"--run-name"}, text, "NAME", "default", "Is written to the results."),
      bench_option({"--batch-size"}, list, "COUNT…", "1", "Prompts that are sent together."),
      bench_option({"--input-len"}, list, "TOKENS…", "1024", "Of each prompt."),
      bench_option({"--output-len"}, list, "TOKENS…", "16", "Of each answer."),
      bench_option({"--input-len-step-percentage"}, number, "PART", "0",
                   "Prompts of a batch differ by this part from one to the next."),
      bench_option({"--temperature"}, number, "T", "0", "0 is greedy."),
      bench_option({"--disable-ignore-eos"}, toggle, "", "",
                   "The model may end its answers before their length."),
      bench_option({"--return-logprob"}, toggle, "", "", "Requests ask for log probabilities."),
      bench_option({"--dataset-name"}, text, "NAME", "random",
                   "Where the prompts come from, as in `pome bench serving`.",
                   {"random", "random-ids", "generated-shared-prefix", "sharegpt"}),
      bench_option({"--dataset-path"}, text, "FILE", "", "For sharegpt: a file in its form."),
      bench_option({"--fixed-prompt-file"}, text, "FILE", "",
                   "Every prompt is this file's text, whatever the data set."),
      bench_option({"--gsp-num-groups"}, integer, "COUNT", "1", "Groups that begin alike."),
      bench_option({"--gsp-system-prompt-len"}, integer, "TOKENS", "2048",
                   "What a group begins with."),
      bench_option({"--gsp-question-len"}, integer, "TOKENS", "128", "What each prompt adds."),
      bench_option({"--cache-hit-rate"}, number, "PART", "0",
                   "This part of each prompt is put into the prefix cache before."),
      bench_option({"--skip-warmup"}, toggle, "", "", "Do not run the first shape once before."),
      bench_option({"--show-report"}, toggle, "", "", "A table in Markdown at the end."),
      bench_option({"--hourly-cost"}, number, "DOLLARS", "0",
                   "What the machine costs, for the report's costs of a million tokens."),
      bench_option({"--result-filename"}, text, "FILE", "result.jsonl",
                   "One line of JSON is appended for each shape."),
      bench_option({"--enable-multi-batch"}, toggle, "", "",
                   "Batches larger than the server runs at once are sent all the same."),
      bench_option({"--seed"}, integer, "SEED", "42", "Of the prompts."),
      bench_option({"--backend"}, text, "NAME", "sglang", "POST /generate is what is measured.",
                   {"sglang"}),
      idle_option({"--model-path", "--model"}, text, served),
      idle_option({"--local-tokenizer-path"}, text, served),
      idle_option({"--gsp-output-len"}, integer, "--output-len counts"),
      idle_option({"--client-stream-interval"}, integer, "tokens are sent as they come"),
      idle_option({"--parallel-batch"}, toggle, "prompts of a request always run together"),
      idle_option({"--no-append-to-github-summary"}, toggle, "nothing is appended there"),
      idle_option({"--server-args-for-metrics"}, list, "the run's name says what was measured"),
      refused_option({"--pydantic-result-filename"}, text,
                     "--result-filename has the same figures as lines of JSON"),
      refused_option({"--apply-chat-template"}, toggle,
                     "`pome bench serving --backend sglang-oai-chat` measures chats"),
  };
}

}  // namespace

std::vector<Flag> one_batch_server_rows() {
  std::vector<Flag> all = target_rows();
  for (auto part : {own_rows(), profile_rows("5"), foreign_rows()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

int one_batch_server_benchmark(const std::vector<std::string>& words) {
  return run_with_options(words, one_batch_server_rows(), false, run_benchmark);
}

}  // namespace pome::apps
