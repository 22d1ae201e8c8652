#include "pome/bench/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "pome/host/gpu_capture.h"

namespace pome::apps {

Result<Recording> Recording::make(BenchOptions& options, telemetry::Trace& trace) {
  Recording recording(trace);
  recording.wanted_ = options.on("profile");
  recording.prefix_ = options.text("profile-prefix");
  if (recording.prefix_.find('/') != std::string::npos) {
    options.fail("profile-prefix", "a name without '/'");
  }
  const auto activities = options.list("profile-activities");
  recording.gpu_wanted_ =
      std::find(activities.begin(), activities.end(), "GPU") != activities.end();
  recording.gpu_ = gpu_capture();
  if (recording.wanted_ && activities == std::vector<std::string>{"GPU"} && !recording.gpu_.start) {
    options.fail("profile-activities",
                 "CPU, for there is no GPU capture: " + recording.gpu_.why_not);
  }
  POME_TRY(options.status());
  recording.folder_ = profile_folder();
  return recording;
}

Status Recording::begin(const std::string& name) {
  if (!wanted_) {
    return {};
  }
  std::error_code fault;
  std::filesystem::create_directories(folder_, fault);
  const std::string file = prefix_.empty() ? name : prefix_ + "_" + name;
  const auto trace_file = folder_ / (file + ".trace.json");
  POME_TRY(trace_->start(trace_file, {}, telemetry::Trace::Existing::replace));
  files_ = "trace saved to " + trace_file.string() + "\n";
  if (gpu_wanted_ && gpu_.start) {
    const auto capture = folder_ / (file + ".gputrace");
    std::filesystem::remove_all(capture, fault);
    if (const Status begun = gpu_.start(capture.string()); !begun) {
      files_ += "no Metal capture: " + begun.error().message + "\n";
    } else {
      files_ += "Metal capture saved to " + capture.string() + "\n";
    }
  } else if (gpu_wanted_) {
    files_ += "no GPU capture: " + gpu_.why_not + "\n";
  }
  return {};
}

void Recording::end() {
  if (!trace_->stop()) {
    return;
  }
  if (gpu_.stop) {
    gpu_.stop();
  }
  fmt::print("{}", files_);
}

std::vector<Flag> recording_rows() {
  using enum Kind;
  return {
      bench_option({"--profile"}, toggle, "", "",
                   "Record a profile into SGLANG_TORCH_PROFILER_DIR, or /tmp."),
      bench_option({"--profile-activities"}, list, "NAME…", "CPU GPU",
                   "CPU: a trace for Perfetto; GPU: a Metal capture, where there can be one.",
                   {"CPU", "GPU"}),
      bench_option({"--profile-prefix", "--profile-filename-prefix"}, text, "NAME", "profile",
                   "What the files' names begin with."),
      refused_option({"--profile-record-shapes"}, toggle,
                     "the trace has each step's rows and tokens"),
  };
}

std::vector<Flag> without_launch_flags(std::vector<Flag> rows) {
  std::erase_if(rows, [](const Flag& flag) {
    return std::any_of(flag.names.begin(), flag.names.end(),
                       [](const std::string& name) { return find_flag(name) != nullptr; });
  });
  return rows;
}

}  // namespace pome::apps
