#include "server/profiling/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/log.h"

namespace pome::server {
namespace {

namespace fs = std::filesystem;
using protocol::native::ProfileRequest;

Error bad_folder(std::string message) {
  return invalid("[profile] " + std::move(message), "output_dir");
}

bool lies_within(const fs::path& root, const fs::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// The folder without links and dots; what does not exist yet stays as it is written.
Result<fs::path> resolved(const fs::path& path) {
  std::error_code fault;
  const fs::path found = fs::weakly_canonical(path, fault);
  if (fault) {
    return bad_folder(fmt::format("cannot look at '{}': {}", path.string(), fault.message()));
  }
  return found;
}

int64_t milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string name_of(const ProfileRequest& request) {
  return request.prefix.empty() ? fmt::format("pome-{}", milliseconds_now())
                                : fmt::format("{}-{}", request.prefix, milliseconds_now());
}

}  // namespace

Result<fs::path> folder_within(const fs::path& root, const std::string& wanted) {
  std::error_code fault;
  fs::create_directories(root, fault);
  const Result<fs::path> allowed = resolved(root);
  if (!allowed) {
    return allowed;
  }
  const Result<fs::path> first = resolved(wanted.empty() ? *allowed : *allowed / wanted);
  if (!first) {
    return first;
  }
  const auto elsewhere = [&] {
    return bad_folder(
        fmt::format("expected a folder in or below '{}' (SGLANG_TORCH_PROFILER_DIR of the server)",
                    allowed->string()));
  };
  if (!lies_within(*allowed, *first)) {
    return elsewhere();
  }
  fs::create_directories(*first, fault);
  if (fault) {
    return bad_folder(fmt::format("cannot make '{}': {}", first->string(), fault.message()));
  }
  // Once more: a link may have come in between.
  const fs::path made = fs::canonical(*first, fault);
  return !fault && lies_within(*allowed, made) ? Result<fs::path>(made)
                                               : Result<fs::path>(elsewhere());
}

Profiler::Profiler(telemetry::Trace& trace, fs::path folder, GpuCapture gpu)
    : trace_(trace),
      folder_(std::move(folder)),
      gpu_(std::move(gpu)),
      whole_run_(trace.under_way()) {}

Result<std::string> Profiler::start(const ProfileRequest& request) {
  const std::lock_guard lock(mutex_);
  if (whole_run_) {
    return invalid("[profile] this server records its whole run (--trace-file)");
  }
  if (trace_.under_way()) {
    return invalid("[profile] a profile is under way: " + last_);
  }
  if (request.gpu_alone && !gpu_.start) {
    return invalid("[profile] no GPU capture: " + gpu_.why_not, "activities");
  }
  const auto folder = folder_within(folder_, request.output_dir);
  if (!folder) {
    return folder.error();
  }
  const std::string name = name_of(request);
  const fs::path trace_file = *folder / (name + ".trace.json");
  telemetry::TraceWindow window{.first_step = request.start_step,
                                .steps = request.num_steps.value_or(0)};
  std::string said = trace_file.string() + "\n";
  const auto fault = std::make_shared<std::string>();
  if (request.gpu && gpu_.start) {
    const std::string capture = (*folder / (name + ".gputrace")).string();
    window.on_begin = [this, capture, fault] {
      if (const Status begun = gpu_.start(capture); !begun) {
        *fault = begun.error().message;
        log::warning("no GPU capture: {}", *fault);
      }
    };
    window.on_end = [this] { gpu_.stop(); };
    said += capture + "\n";
  } else if (request.gpu) {
    said += "no GPU capture: " + gpu_.why_not + "\n";
  }
  const bool at_once = !window.first_step && window.steps == 0;
  POME_TRY(trace_.start(trace_file, std::move(window)));
  if (at_once && !fault->empty()) {
    said += "no GPU capture: " + *fault + "\n";
  }
  last_ = said;
  return "Start profiling.\n" + said;
}

Result<std::string> Profiler::stop() {
  const std::lock_guard lock(mutex_);
  if (whole_run_) {
    return invalid("[profile] this server records its whole run (--trace-file)");
  }
  if (!trace_.stop()) {
    return invalid(last_.empty()
                       ? std::string("[profile] no profile is under way")
                       : "[profile] no profile is under way; the last one has ended: " + last_);
  }
  return "Stop profiling.\n" + last_;
}

namespace {

asio::awaitable<void> reply_with(Exchange& exchange, Result<std::string> said) {
  Reply reply = said ? Reply{.body = *said, .content_type = "text/plain; charset=utf-8"}
                     : exchange.refusal(said.error());
  co_await exchange.reply(std::move(reply));
}

Result<std::string> started(Profiler* profiler, const Request& request) {
  if (profiler == nullptr) {
    return Error{ErrorCode::not_found, "this server makes no profiles", {}};
  }
  const auto body =
      request.body.empty() ? Result<json::value>(json::object()) : parse_json(request.body);
  if (!body) {
    return body.error();
  }
  const auto order = protocol::native::parse_profile_request(*body);
  return order ? profiler->start(*order) : order.error();
}

}  // namespace

asio::awaitable<void> start_profile(Profiler* profiler, Exchange& exchange) {
  return reply_with(exchange, started(profiler, exchange.request()));
}

asio::awaitable<void> stop_profile(Profiler* profiler, Exchange& exchange) {
  return reply_with(
      exchange,
      profiler != nullptr
          ? profiler->stop()
          : Result<std::string>(Error{ErrorCode::not_found, "this server makes no profiles", {}}));
}

}  // namespace pome::server
