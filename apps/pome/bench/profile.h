#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pome/bench/options.h"
#include "server/profiling/profiler.h"
#include "telemetry/trace.h"

namespace pome::apps {

// Profiles of what runs in this process: a trace, and a Metal capture where there can be one.
class Recording {
 public:
  // `trace` outlives it. Without --profile nothing is ever recorded.
  static Result<Recording> make(BenchOptions& options, telemetry::Trace& trace);

  bool wanted() const { return wanted_; }
  // Files whose names begin with --profile-prefix and `name`; a file of the same name is replaced.
  Status begin(const std::string& name);
  // Says where the files are. Nothing where none was begun.
  void end();

 private:
  explicit Recording(telemetry::Trace& trace) : trace_(&trace) {}

  telemetry::Trace* trace_;
  bool wanted_ = false;
  bool gpu_wanted_ = false;
  std::filesystem::path folder_;
  std::string prefix_;
  std::string files_;  // of the recording that runs
  server::GpuCapture gpu_;
};

std::vector<Flag> recording_rows();

// The rows that do not stand in the table of launch flags too.
std::vector<Flag> without_launch_flags(std::vector<Flag> rows);

}  // namespace pome::apps
