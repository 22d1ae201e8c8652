#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "base/log.h"
#include "pome/bench/batch_model.h"
#include "pome/bench/bench.h"
#include "pome/bench/load/dataset.h"
#include "pome/bench/load/statistics.h"
#include "pome/bench/profile.h"
#include "pome/bench/shared_options.h"
#include "pome/host/environment.h"
#include "pome/talk/answer_flags.h"

namespace pome::apps {
namespace {

constexpr int32_t kLoggedSteps = 5;
constexpr int32_t kWarmUpOutputTokens = 32;
constexpr int32_t kSyntheticIds = 10000;  // synthetic prompts are of ids below

struct Run {
  std::string name;
  int32_t log_decode_step = 0;
  std::string profile_stage;
  std::optional<int32_t> profile_start;
  int32_t profile_steps = 1;
  bool count_nodes = false;
  std::vector<std::vector<Token>> prompts;  // of --prompt-filename
};

// Prompts of a case: those of the file, the last one again where they are too few, or made-up ids.
std::vector<std::vector<Token>> prompts_of(const Run& run, const BatchShape& shape, int32_t vocab) {
  std::vector<std::vector<Token>> prompts;
  std::mt19937_64 random(1);
  for (int32_t i = 0; i < shape.batch; ++i) {
    if (!run.prompts.empty()) {
      prompts.push_back(run.prompts[std::min(static_cast<size_t>(i), run.prompts.size() - 1)]);
      continue;
    }
    auto& prompt = prompts.emplace_back();
    for (int32_t k = 0; k < shape.input; ++k) {
      prompt.push_back(draw(random, 0, std::min(vocab, kSyntheticIds) - 1));
    }
  }
  return prompts;
}

// Times one shape; prints as it goes when `spoken`.
class CaseTimer {
 public:
  CaseTimer(BatchModel& model, const Run& run, const BatchShape& shape, Recording* recording)
      : model_(model), run_(run), shape_(shape), recording_(recording) {}

  Result<json::object> run() {
    const auto prompts = prompts_of(run_, shape_, model_.vocab_tokens());
    size_t longest = 0;
    for (const auto& prompt : prompts) {
      longest = std::max(longest, prompt.size());
    }
    model_.begin(shape_.batch, static_cast<int32_t>(longest) + shape_.output);
    POME_TRY(record("prefill", true));
    const double prefill_s = model_.prefill(prompts);
    end_record();
    total_s_ = prefill_s;
    out_ = {{"run_name", run_.name},
            {"batch_size", shape_.batch},
            {"input_len", shape_.input},
            {"output_len", shape_.output}};
    const double rate = static_cast<double>(shape_.input) * shape_.batch / prefill_s;
    say(fmt::format("Prefill. latency: {:6.5f} s, throughput: {:9.2f} token/s", prefill_s, rate));
    out_["prefill_latency"] = prefill_s;
    out_["prefill_throughput"] = rate;
    POME_TRY(decode());
    const double overall =
        static_cast<double>(shape_.input + shape_.output) * shape_.batch / total_s_;
    say(fmt::format("Total. latency: {:6.3f} s, throughput: {:9.2f} token/s", total_s_, overall));
    out_["total_latency"] = total_s_;
    out_["overall_throughput"] = overall;
    return std::move(out_);
  }

 private:
  Status decode() {
    std::vector<double> steps;
    const int32_t first = run_.profile_start.value_or(shape_.output / 2);
    const int32_t last = first + run_.profile_steps - 1;
    for (int32_t i = 0; i + 1 < shape_.output; ++i) {
      POME_TRY(record("decode", i == first));
      const double step_s = model_.decode(i == 0 && run_.count_nodes);
      if (i >= last) {
        end_record();
      }
      steps.push_back(step_s);
      total_s_ += step_s;
      const bool logged = run_.log_decode_step > 0 && i % run_.log_decode_step == 0;
      if (i < kLoggedSteps || logged) {
        say(fmt::format(
            "Decode {}. Batch size: {}, latency: {:6.5f} s, throughput: {:9.2f} token/s", i,
            shape_.batch, step_s, shape_.batch / step_s));
      }
    }
    end_record();
    if (steps.empty()) {
      return {};
    }
    const double median = quantile(steps, 0.5);
    say(fmt::format("Decode.  median latency: {:6.5f} s, median throughput: {:9.2f} token/s",
                    median, shape_.batch / median));
    out_["median_decode_latency"] = median;
    out_["median_decode_throughput"] = shape_.batch / median;
    if (run_.count_nodes) {
      say_nodes();
    }
    return {};
  }

  void say_nodes() {
    const BatchNodes& nodes = model_.nodes();
    std::vector<std::string> names;
    json::object by_name;
    for (const auto& [name, count] : nodes.by_name) {
      names.push_back(fmt::format("{} {}", name, count));
      by_name[name] = count;
    }
    say(fmt::format("Decode. nodes: {} ({}), weights: {} bytes", nodes.total,
                    fmt::join(names, ", "), nodes.weight_bytes));
    out_["decode_nodes"] = nodes.total;
    out_["decode_nodes_by_name"] = std::move(by_name);
    out_["weight_bytes"] = nodes.weight_bytes;
  }

  Status record(const std::string& stage, bool here) {
    const bool wanted = run_.profile_stage == "all" || run_.profile_stage == stage;
    if (recording_ == nullptr || !here || !wanted) {
      return {};
    }
    return recording_->begin(fmt::format("batch{}_input{}_output{}_{}", shape_.batch, shape_.input,
                                         shape_.output, stage));
  }
  void end_record() {
    if (recording_ != nullptr) {
      recording_->end();
    }
  }
  void say(const std::string& line) const { fmt::print("{}\n", line); }

  BatchModel& model_;
  const Run& run_;
  const BatchShape shape_;
  Recording* const recording_;
  double total_s_ = 0.0;
  json::object out_;
};

Result<std::vector<std::string>> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) {
      lines.push_back(line);
    }
  }
  if (lines.empty()) {
    return invalid(fmt::format("--prompt-filename: no line in '{}'", file), "prompt-filename");
  }
  return lines;
}

// The first and last three of each row, as array printers shorten them.
std::string shown(const std::vector<std::vector<float>>& rows) {
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < row.size(); ++i) {
      if (row.size() > 6 && i == 3) {
        parts.emplace_back("...");
        i = row.size() - 3;
      }
      parts.push_back(fmt::format("{:.4f}", row[i]));
    }
    lines.push_back(fmt::format("[{}]", fmt::join(parts, ", ")));
  }
  return fmt::format("[{}]", fmt::join(lines, ",\n        "));
}

// Prompts in two halves, so that the second meets a filled cache, and then greedy answers.
Status show_answers(BatchModel& model, const Run& run, int32_t cut, int32_t output) {
  std::vector<std::vector<Token>> prompts = run.prompts;
  if (prompts.empty()) {
    const auto encoded =
        model.encode({"The capital of France is", "The capital of the United Kindom is",
                      "Today is a sunny day and I like"});
    if (!encoded) {
      return encoded.error();
    }
    prompts = *encoded;
  }
  std::vector<std::vector<Token>> first, rest;
  size_t longest = 0;
  for (const auto& prompt : prompts) {
    if (prompt.size() <= static_cast<size_t>(cut)) {
      return invalid(
          fmt::format("--cut-len: a prompt has {} tokens, no more than {}", prompt.size(), cut),
          "cut-len");
    }
    longest = std::max(longest, prompt.size());
    first.emplace_back(prompt.begin(), prompt.begin() + cut);
    rest.emplace_back(prompt.begin() + cut, prompt.end());
  }
  fmt::print("\ninput_ids={}\n\n", prompts);
  model.begin(static_cast<int32_t>(prompts.size()), static_cast<int32_t>(longest) + output);
  if (cut > 0) {
    model.prefill(first);
    fmt::print("prefill logits (first half): {} \n\n", shown(model.logits()));
  }
  model.prefill(rest);
  fmt::print("prefill logits (final): {} \n\n", shown(model.logits()));
  std::vector<std::vector<Token>> answers = prompts;
  for (int32_t i = 0; i < output; ++i) {
    if (i > 0) {
      model.decode(false);
    }
    const std::vector<Token> next = model.tokens();
    for (size_t s = 0; s < answers.size(); ++s) {
      answers[s].push_back(next[s]);
    }
  }
  for (size_t s = 0; s < answers.size(); ++s) {
    fmt::print("========== Prompt {} ==========\n{} \n\n", s, model.decode_text(answers[s]));
  }
  return {};
}

Run run_of(BenchOptions& options) {
  Run run;
  run.name = options.text("run-name");
  run.log_decode_step = options.whole("log-decode-step", 0);
  run.profile_stage = options.text("profile-stage");
  run.profile_start = options.whole_if_given("profile-start-step", 0);
  run.profile_steps = options.whole("profile-steps", 1);
  run.count_nodes = options.on("count-nodes");
  return run;
}

// Prompts of a file have the lengths that they have.
void take_lengths_of(const std::vector<std::vector<Token>>& prompts,
                     std::vector<BatchShape>& cases) {
  size_t longest = 0;
  for (const auto& prompt : prompts) {
    longest = std::max(longest, prompt.size());
  }
  for (BatchShape& shape : cases) {
    shape.input = static_cast<int32_t>(longest);
  }
  cases.erase(std::unique(cases.begin(), cases.end()), cases.end());
}

Status time_cases(BatchModel& model, const Run& run, const std::vector<BatchShape>& cases,
                  Recording& recording, const std::string& file) {
  fmt::print("Warmup ...\n");
  BatchShape warm = cases.front();
  warm.output = std::min(warm.output, kWarmUpOutputTokens);
  Run quiet = run;
  quiet.count_nodes = false;
  quiet.log_decode_step = 0;
  const auto warmed = CaseTimer(model, quiet, warm, nullptr).run();
  if (!warmed) {
    return warmed.error();
  }
  fmt::print("Benchmark ...\n");
  for (const BatchShape& shape : cases) {
    if (shape.input + shape.output > model.context_tokens()) {
      fmt::print("skipping ({}, {}, {}): the model's context has {} tokens\n", shape.batch,
                 shape.input, shape.output, model.context_tokens());
      continue;
    }
    const auto result =
        CaseTimer(model, run, shape, recording.wanted() ? &recording : nullptr).run();
    if (!result) {
      return result.error();
    }
    if (!file.empty()) {
      POME_TRY(append_line(file, *result));
    }
  }
  return {};
}

Status run_benchmark(BenchOptions& options) {
  Run run = run_of(options);
  std::vector<BatchShape> cases = batch_shapes(options);
  const int32_t cut = options.whole("cut-len", 0);
  telemetry::Trace trace;
  auto recording = Recording::make(options, trace);
  POME_TRY(options.status());
  if (!recording) {
    return recording.error();
  }
  const auto settings = Settings::resolve(with_default_model(options.line().flags), environment);
  if (!settings) {
    return settings.error();
  }
  log::set_level(log::parse_level(settings->text("--log-level")).value());
  const std::atomic<bool> stop{false};
  const auto model = open_batch_model(*settings, hub::settings_from(environment), stop, trace);
  if (!model) {
    return model.error();
  }
  if (const std::string file = options.text("prompt-filename"); !file.empty()) {
    const auto lines = lines_of(file);
    const auto prompts = lines ? (*model)->encode(*lines) : lines.error();
    if (!prompts) {
      return prompts.error();
    }
    run.prompts = *prompts;
    take_lengths_of(run.prompts, cases);
  }
  if (options.on("correctness-test")) {
    return show_answers(**model, run, cut, cases.front().output);
  }
  return time_cases(**model, run, cases, *recording, options.text("result-filename"));
}

}  // namespace

std::vector<Flag> one_batch_rows() {
  using enum Kind;
  std::vector<Flag> all = {
      bench_option({"--run-name"}, text, "NAME", "default", "Is written to the results."),
      bench_option({"--batch-size"}, list, "COUNT…", "1", "Sequences in step."),
      bench_option({"--input-len"}, list, "TOKENS…", "1024", "Of each prompt."),
      bench_option({"--output-len"}, list, "TOKENS…", "16", "Of each answer."),
      bench_option({"--prompt-filename"}, text, "FILE", "", "Prompts, one a line."),
      bench_option({"--result-filename"}, text, "FILE", "result.jsonl",
                   "One line of JSON is appended for each shape."),
      bench_option({"--correctness-test"}, toggle, "", "",
                   "Show logits and greedy answers of three prompts instead of times."),
      bench_option({"--cut-len"}, integer, "TOKENS", "4",
                   "What the first of two prefills reads, in that test."),
      bench_option({"--log-decode-step"}, integer, "COUNT", "0",
                   "Print each so-manieth step beside the first five."),
      bench_option({"--count-nodes"}, toggle, "", "",
                   "MLX operations of a decode step, by name, and the bytes of the weights."),
      bench_option({"--profile-stage"}, text, "STAGE", "all", "Which stage is recorded.",
                   {"all", "prefill", "decode"}),
      bench_option({"--profile-start-step"}, integer, "STEP", "",
                   "The decode step that the profile begins with. Default: in the middle."),
      bench_option({"--profile-steps"}, integer, "COUNT", "1", "Decode steps in the profile."),
  };
  for (auto part : {recording_rows()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return without_launch_flags(std::move(all));
}

int one_batch_benchmark(const std::vector<std::string>& words) {
  return run_with_options(words, one_batch_rows(), true, run_benchmark);
}

}  // namespace pome::apps
