#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.h"
#include "hub/transfer/settings.h"
#include "pome/command.h"
#include "pome/flags/command_line.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/host/gpu_capture.h"
#include "pome/host/machine.h"
#include "pome/host/parent_watch.h"
#include "pome/host/report.h"
#include "pome/host/signals.h"
#include "pome/model/model_defaults.h"
#include "pome/model/open_model.h"
#include "pome/model/start_report.h"
#include "server/server.h"

namespace pome::apps {
namespace {

using Clock = std::chrono::steady_clock;

std::chrono::milliseconds milliseconds(const Settings& settings, std::string_view name) {
  return std::chrono::milliseconds(static_cast<int64_t>(*settings.number(name) * 1000));
}

json::object server_args(const Settings& settings) {
  json::object args;
  for (const auto& flag : launch_flags()) {
    if (flag.treatment == Treatment::honoured && flag.name().find("api-key") == std::string::npos) {
      std::string key = flag.key();
      std::replace(key.begin(), key.end(), '-', '_');
      args[key] = settings.text(flag.name());
    }
  }
  return args;
}

telemetry::MetricsOptions metrics_options(const Settings& settings) {
  const auto bounds = [&](std::string_view name) {
    return parse_bounds(settings.text(name)).value_or(std::vector<double>());
  };
  return {.time_to_first_token_bounds = bounds("--bucket-time-to-first-token"),
          .inter_token_latency_bounds = bounds("--bucket-inter-token-latency"),
          .request_latency_bounds = bounds("--bucket-e2e-request-latency"),
          .tokens_histograms = settings.on("--collect-tokens-histogram")};
}

server::ServerOptions server_options(const Settings& settings, telemetry::Trace* trace) {
  server::ServerOptions options;
  options.host = settings.text("--host");
  options.port = static_cast<uint16_t>(*settings.integer("--port"));
  options.api_key = settings.text("--api-key");
  options.admin_api_key = settings.text("--admin-api-key");
  options.allowed_origins = split_words(settings.text("--allowed-origins"));
  options.allowed_hosts = split_words(settings.text("--allowed-hosts"));
  options.playground = !settings.on("--disable-playground");
  options.limits.client_timeout = milliseconds(settings, "--client-timeout");
  options.drain_timeout = milliseconds(settings, "--drain-timeout");
  options.serving.served_model_name = served_name_of(settings);
  options.serving.strict_model_name = settings.on("--strict-model-name");
  options.serving.incremental_streaming_output = settings.on("--incremental-streaming-output");
  options.serving.watchdog_timeout = milliseconds(settings, "--watchdog-timeout");
  options.serving.metrics_enabled = settings.on("--enable-metrics");
  options.serving.report_cached_tokens = settings.on("--enable-cache-report");
  options.serving.metrics = metrics_options(settings);
  options.serving.request_log = {
      .enabled = settings.on("--log-requests"),
      .level = static_cast<int>(*settings.integer("--log-requests-level")),
      .format = settings.text("--log-requests-format") == "json" ? server::LogFormat::json
                                                                 : server::LogFormat::text};
  options.serving.trace = trace;
  options.on_stuck = [] {
    log::error("the engine is stuck in a step: pome ends, so that it can be started anew");
    std::_Exit(kFailed);
  };
  options.serving.server_args = server_args(settings);
  options.serving.created_s = std::chrono::duration_cast<std::chrono::seconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count();
  return options;
}

// How `serve` ends: the first signal asks for a drain, the second for an end at once, the third
// takes it. A signal that comes before there is a model stops its pull.
class Ending {
 public:
  void on_signal() {
    const int count = ++count_;
    if (count > 2) {
      std::_Exit(kInterrupted);
    }
    asked_ = true;
    at_once_ = count == 2;
    act();
  }
  void on_parent_end() {
    log::info("the process that started pome has ended");
    asked_ = true;
    act();
  }
  // From now on there is a server to end; nullptr: no longer.
  void attach(server::Server* server) {
    {
      const std::lock_guard lock(mutex_);
      server_ = server;
    }
    if (asked_) {
      act();
    }
  }
  const std::atomic<bool>& asked() const { return asked_; }
  bool at_once() const { return at_once_; }

 private:
  void act() {
    const std::lock_guard lock(mutex_);
    if (!server_) {
      return;
    }
    if (at_once_) {
      server_->stop();
    } else {
      log::info("draining: running answers are finished, new ones refused; again to stop at once");
      server_->drain();
    }
  }

  std::mutex mutex_;
  server::Server* server_ = nullptr;
  std::atomic<int> count_{0};
  std::atomic<bool> asked_{false};
  std::atomic<bool> at_once_{false};
};

void warn_about(const Settings& settings) {
  for (const auto& warning : settings.warnings()) {
    log::warning("{}", warning);
  }
}

// Whoever reaches the machine could use the model, and the person who typed --host may not know.
Status check_auth(const Settings& settings) {
  const std::string host = settings.text("--host");
  const bool loopback = host == "localhost" || host == "::1" || host.starts_with("127.");
  if (loopback || !settings.text("--api-key").empty() || settings.on("--insecure-no-auth")) {
    return {};
  }
  return invalid(fmt::format("--host {} lets anybody who reaches this machine use the model: set "
                             "--api-key KEY, or --insecure-no-auth if that is what you want",
                             host),
                 "host");
}

// The model's way from its name to its first token, beside a server that answers all the while.
class Loading {
 public:
  Loading(const Settings& settings, const hub::Settings& hub, telemetry::Trace* trace)
      : settings_(settings), hub_(hub), trace_(trace) {}

  // On a thread of its own. A failure stops the server.
  void run(server::Server& server, const Ending& ending, uint16_t port, Clock::time_point started) {
    Status status = open(ending.asked());
    opened_.set_value();
    if (status.ok()) {
      server.serve(*model_->engine, model_->text, model_->sampling_defaults);
      const Status ready = model_->engine->wait_until_ready(kLoadTimeout);
      if (ready.ok()) {
        return_freed_memory();  // a tokenizer's vocabulary was parsed twice on the way
        print_start_report(settings_, *model_, port, Clock::now() - started);
        return;
      }
      status = ending.asked() ? Status() : ready;
    }
    failure_ = status;
    server.stop();
  }

  // Once the server has ended: ends a load that still runs, and answers that do.
  void end() {
    opened_.get_future().wait();
    if (model_) {
      model_->engine->drain();
      model_->engine->stop();
    }
  }

  // Why there is no model: `cancelled` too, when a signal ended a pull. Ok when one ended the load
  // of the weights. After run().
  const Status& failure() const { return failure_; }

 private:
  Status open(const std::atomic<bool>& stop) try {
    auto model = open_model(settings_, hub_, stop, trace_);
    if (!model) {
      return model.error();
    }
    model_ = std::move(*model);
    return {};
  } catch (const std::exception& fault) {
    return Error{ErrorCode::internal, fault.what(), {}};
  }

  const Settings& settings_;
  const hub::Settings& hub_;
  telemetry::Trace* trace_;
  std::promise<void> opened_;
  std::optional<OpenModel> model_;
  Status failure_;
};

// The listener opens before anything is read, so that a taken port is known at once and /health
// says `starting` from the first moment on.
int serve(const Settings& settings, const hub::Settings& hub, Clock::time_point started) {
  outlive_terminal();
  Ending ending;
  const Signals signals([&](int) { ending.on_signal(); });
  std::optional<ParentWatch> parent;
  if (settings.on("--exit-with-parent")) {
    parent.emplace([&] { ending.on_parent_end(); });
  }
  warn_about(settings);
  if (const Status auth = check_auth(settings); !auth) {
    return misused(auth.error());
  }
  telemetry::Trace trace;  // outlives engine and server, which record into it
  if (const std::string file = settings.text("--trace-file"); !file.empty()) {
    if (const Status opened = trace.start(file, {}, telemetry::Trace::Existing::replace); !opened) {
      return failed(opened.error());
    }
  }
  server::Profiler profiler(trace, profile_folder(), gpu_capture());
  Loading loading(settings, hub, &trace);
  server::ServerOptions options = server_options(settings, &trace);
  options.serving.profiler = &profiler;
  server::Server server(std::move(options));
  const auto port = server.listen();
  if (!port) {
    return failed(port.error());
  }
  ending.attach(&server);
  std::thread loader([&] { loading.run(server, ending, *port, started); });
  server.run();
  ending.attach(nullptr);
  parent.reset();
  loading.end();
  loader.join();
  if (!loading.failure().ok()) {
    return failed(loading.failure().error());
  }
  return ending.at_once() ? kInterrupted : 0;
}

}  // namespace

int serve_command(const std::vector<std::string>& words) {
  const auto started = Clock::now();
  const auto line = parse_command_line(words, true, {}, 1);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all) {
    return show_usage(R"(usage: pome serve [MODEL] [FLAG…]

Serves a model at http://127.0.0.1:30000 with OpenAI's endpoints (/v1/chat/completions,
/v1/completions, /v1/models) and SGLang's (/generate, /health, /get_server_info). SIGTERM and Ctrl-C
finish what runs and exit; a second Ctrl-C exits at once.
)" + flags_help(line->help_all),
                      true);
  }
  auto settings = Settings::resolve(with_model(*line), environment);
  if (!settings) {
    return misused(settings.error());
  }
  log::set_level(log::parse_level(settings->text("--log-level")).value());
  if (const std::string file = settings->text("--log-file"); !file.empty()) {
    if (const Status opened = log::to_file(file); !opened) {
      return misused(opened.error());
    }
  }
  return serve(settings.value(), hub::settings_from(environment), started);
}

}  // namespace pome::apps
