#include "pome/bench/shared_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "hub/transfer/download.h"
#include "pome/host/environment.h"
#include "pome/host/progress_bar.h"
#include "pome/host/report.h"

namespace pome::apps {
namespace {

using enum Kind;

constexpr const char* kShareGpt = "ShareGPT_V3_unfiltered_cleaned_split.json";
constexpr const char* kShareGptUrl =
    "/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/";

// The file that benchmarks of servers have in common: 642 MB, fetched once.
Result<std::filesystem::path> sharegpt_file() {
  const hub::Settings settings = hub::settings_from(environment);
  const auto target = settings.pome_cache / "datasets" / kShareGpt;
  std::error_code error;
  if (std::filesystem::exists(target, error)) {
    return target;
  }
  if (settings.offline) {
    return invalid(fmt::format("HF_HUB_OFFLINE is set and {} is not here: name a file in its form "
                               "with --dataset-path, or take --dataset-name random",
                               target.string()),
                   "dataset-path");
  }
  std::filesystem::create_directories(target.parent_path(), error);
  ProgressBar bar;
  hub::RemoteFile file;
  file.name = kShareGpt;
  file.url = settings.hf_endpoint + kShareGptUrl + kShareGpt;
  const Status fetched =
      hub::download_file(settings, file, target, [&](hub::Stage stage, int64_t bytes) {
        bar.show({.stage = stage, .file = kShareGpt, .bytes_done = bytes});
        return true;
      });
  return fetched ? Result<std::filesystem::path>(target) : fetched.error();
}

}  // namespace

std::vector<Flag> dataset_rows(const std::string& default_name) {
  const std::string no_images = "the models here read text; take one of the other data sets";
  return {
      bench_option({"--dataset-name"}, text, "NAME", default_name,
                   "sharegpt: recorded questions, with answers of their length; random: words; "
                   "random-ids: token ids of the whole vocabulary; generated-shared-prefix: groups "
                   "that begin alike.",
                   {"sharegpt", "random", "random-ids", "generated-shared-prefix"}),
      bench_option({"--dataset-path"}, text, "FILE", "",
                   "A file in ShareGPT's form. Without it ShareGPT itself is fetched, once."),
      bench_option({"--num-prompts"}, integer, "COUNT", "1000", "Requests of the load."),
      bench_option({"--sharegpt-output-len"}, integer, "TOKENS", "",
                   "Answer length, in place of the recorded one."),
      bench_option({"--sharegpt-context-len"}, integer, "TOKENS", "",
                   "Longer conversations are left out."),
      bench_option({"--random-input-len"}, integer, "TOKENS", "1024", "Longest random prompt."),
      bench_option({"--random-output-len"}, integer, "TOKENS", "1024", "Longest random answer."),
      bench_option({"--random-range-ratio"}, number, "PART", "0",
                   "Lengths are drawn from this part of the longest to the longest: 1 gives exact "
                   "lengths, 0 anything from one token on."),
      bench_option({"--gsp-num-groups", "--gen-num-groups"}, integer, "COUNT", "64",
                   "Groups of prompts that begin alike."),
      bench_option({"--gsp-prompts-per-group", "--gen-prompts-per-group"}, integer, "COUNT", "16",
                   "Prompts of each group."),
      bench_option({"--gsp-system-prompt-len", "--gen-system-prompt-len"}, integer, "TOKENS",
                   "2048", "What a group begins with."),
      bench_option({"--gsp-question-len", "--gen-question-len"}, integer, "TOKENS", "128",
                   "What each prompt adds to it."),
      bench_option({"--gsp-output-len", "--gen-output-len"}, integer, "TOKENS", "256",
                   "Answer length of such prompts."),
      bench_option({"--gsp-ordered"}, toggle, "", "", "Group after group, not in random order."),
      bench_option({"--prompt-suffix"}, text, "TEXT", "",
                   "Stands at the end of each recorded or grouped prompt."),
      bench_option({"--seed"}, integer, "SEED", "1", "Of prompts, lengths and arrivals."),
      refused_option({"--image-count"}, text, no_images),
      refused_option({"--image-resolution"}, text, no_images),
      refused_option({"--image-format"}, text, no_images),
      refused_option({"--image-content"}, text, no_images),
      refused_option({"--random-image-count"}, toggle, no_images),
      refused_option({"--apply-chat-template"}, toggle,
                     "with --backend sglang-oai-chat the server applies its template"),
  };
}

Result<DatasetOptions> dataset_options(BenchOptions& options) {
  DatasetOptions out;
  out.name = options.text("dataset-name");
  out.path = options.text("dataset-path");
  out.prompts = options.whole("num-prompts", 1);
  out.suffix = options.text("prompt-suffix");
  out.seed = static_cast<uint64_t>(options.whole("seed", 0));
  out.sharegpt_output_tokens = options.whole_if_given("sharegpt-output-len", 2);
  out.sharegpt_context_tokens = options.whole_if_given("sharegpt-context-len", 4);
  out.random_input_tokens = options.whole("random-input-len", 1);
  out.random_output_tokens = options.whole("random-output-len", 1);
  out.random_range_ratio = options.number("random-range-ratio", 0, 1);
  out.groups = options.whole("gsp-num-groups", 1);
  out.prompts_per_group = options.whole("gsp-prompts-per-group", 1);
  out.system_prompt_tokens = options.whole("gsp-system-prompt-len", 1);
  out.question_tokens = options.whole("gsp-question-len", 1);
  out.group_output_tokens = options.whole("gsp-output-len", 1);
  out.groups_in_order = options.on("gsp-ordered");
  POME_TRY(options.status());
  std::error_code fault;
  if (!out.path.empty() && !std::filesystem::exists(out.path, fault)) {
    return invalid(fmt::format("--dataset-path: there is no '{}'", out.path.string()),
                   "dataset-path");
  }
  if (out.name == "sharegpt" && out.path.empty()) {
    auto file = sharegpt_file();
    if (!file) {
      return file.error();
    }
    out.path = *file;
  }
  return out;
}

std::vector<BatchShape> batch_shapes(BenchOptions& options) {
  const auto inputs = options.wholes("input-len", 1);
  const auto outputs = options.wholes("output-len", 1);
  std::vector<BatchShape> shapes;
  for (const int32_t batch : options.wholes("batch-size", 1)) {
    for (const int32_t input : inputs) {
      for (const int32_t output : outputs) {
        shapes.push_back({batch, input, output});
      }
    }
  }
  return shapes;
}

std::vector<Flag> target_rows() {
  return {
      bench_option({"--base-url"}, text, "URL", "",
                   "The server, in place of --host and --port. OPENAI_API_KEY is sent as its key."),
      bench_option({"--host"}, text, "HOST", "127.0.0.1", "The server's host."),
      bench_option({"--port"}, integer, "PORT", "30000", "The server's port."),
      bench_option({"--ready-check-timeout-sec"}, integer, "SECONDS", "60",
                   "Waits so long for a server that does not answer yet."),
  };
}

Result<std::unique_ptr<Target>> open_target(BenchOptions& options) {
  const int32_t port = options.whole("port", 1);
  const int32_t wait_s = options.whole("ready-check-timeout-sec", 0);
  POME_TRY(options.status());
  return Target::open(
      base_url_of(options.text("base-url"), options.text("host"), std::to_string(port)),
      std::chrono::seconds(wait_s));
}

std::vector<Flag> profile_rows(const std::string& steps) {
  const std::string one_trace =
      "a step has rows of both stages; the one trace shows each step's rows and tokens";
  const std::string one_server = "prefill and decode run in one server";
  return {
      bench_option({"--profile"}, toggle, "", "",
                   "The server records a profile of the load: POST /start_profile."),
      bench_option({"--profile-activities"}, list, "NAME…", "CPU GPU",
                   "CPU: the trace of steps and requests; GPU: a Metal capture, where there can be "
                   "one.",
                   {"CPU", "GPU"}),
      bench_option({"--profile-start-step"}, integer, "STEP", "",
                   "The engine's step that the profile begins with."),
      bench_option({"--profile-steps", "--profile-num-steps"}, integer, "COUNT", steps,
                   "The profile ends after so many steps."),
      bench_option({"--profile-output-dir"}, text, "FOLDER", "",
                   "On the server, below its SGLANG_TORCH_PROFILER_DIR."),
      bench_option({"--profile-prefix"}, text, "NAME", "", "What the files' names begin with."),
      refused_option({"--profile-by-stage"}, toggle, one_trace),
      refused_option({"--profile-stages"}, list, one_trace),
      refused_option({"--pd-separated"}, toggle, one_server),
      refused_option({"--profile-prefill-url"}, list, one_server),
      refused_option({"--profile-decode-url"}, list, one_server),
  };
}

ProfileOrder profile_order(BenchOptions& options) {
  ProfileOrder order;
  order.activities = options.list("profile-activities");
  order.start_step = options.whole_if_given("profile-start-step", 0);
  if (!options.text("profile-steps").empty()) {
    order.steps = options.whole("profile-steps", 1);
  }
  order.output_dir = options.text("profile-output-dir");
  order.prefix = options.text("profile-prefix");
  return order;
}

std::vector<Flag> foreign_rows() {
  const std::string adapters = "adapters are not served";
  return {
      refused_option({"--lora-name"}, list, adapters),
      idle_option({"--lora-request-distribution"}, text, adapters),
      idle_option({"--lora-zipf-alpha"}, text, adapters),
      refused_option({"--fake-prefill"}, toggle, "prefill and decode run in one server"),
  };
}

int run_with_options(const std::vector<std::string>& words, const std::vector<Flag>& rows,
                     bool launch, Status (*run)(BenchOptions& options)) {
  auto options = BenchOptions::parse(words, rows, launch);
  if (!options) {
    return misused(options.error());
  }
  for (const std::string& line : options->warnings()) {
    log::warning("{}", line);
  }
  const Status done = run(*options);
  if (done) {
    return 0;
  }
  return done.error().code == ErrorCode::invalid_argument ? misused(done.error())
                                                          : failed(done.error());
}

Status append_line(const std::string& file, const json::object& line) {
  std::ofstream out(file, std::ios::app);
  out << to_string(json::value(line)) << "\n";
  if (!out.flush()) {
    return invalid(fmt::format("cannot write '{}'", file));
  }
  return {};
}

}  // namespace pome::apps
