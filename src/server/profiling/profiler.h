#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>

#include "base/result.h"
#include "protocol/native/profile.h"
#include "server/http/exchange.h"
#include "telemetry/trace.h"

namespace pome::server {

// How the GPU's work is captured, from the program that knows the GPU.
struct GpuCapture {
  std::function<Status(const std::string& file)> start = {};
  std::function<void()> stop = {};                          // does nothing where no capture runs
  std::string why_not = "this back end makes no captures";  // where `start` is empty
};

// A folder in or below `root` for files, made where it is missing. A path that leads elsewhere, by
// its words or by a link, is refused; the error names `output_dir`.
Result<std::filesystem::path> folder_within(const std::filesystem::path& root,
                                            const std::string& wanted);

// Profiles on request, one at a time. Any thread.
class Profiler {
 public:
  // Files go into `folder` or below. `trace` outlives the profiler and records nothing yet, unless
  // the whole run is recorded: then `start` is refused.
  Profiler(telemetry::Trace& trace, std::filesystem::path folder, GpuCapture gpu);

  // What is said to the client: where the files will be, and what was left out.
  Result<std::string> start(const protocol::native::ProfileRequest& request);
  Result<std::string> stop();

 private:
  Result<std::string> files_of(const protocol::native::ProfileRequest& request) const;

  telemetry::Trace& trace_;
  const std::filesystem::path folder_;
  const GpuCapture gpu_;
  const bool whole_run_;
  std::mutex mutex_;  // guards what follows
  std::string last_;  // the files of the last profile, as the client was told
};

// The endpoints. `profiler` may be null: then they are 404.
asio::awaitable<void> start_profile(Profiler* profiler, Exchange& exchange);
asio::awaitable<void> stop_profile(Profiler* profiler, Exchange& exchange);

}  // namespace pome::server
