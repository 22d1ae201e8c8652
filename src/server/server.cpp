#include "server/server.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "protocol/field_table.h"
#include "server/handlers/anthropic/endpoints.h"
#include "server/handlers/ollama/endpoints.h"
#include "server/http/listener.h"
#include "server/playground/playground.h"

namespace pome::server {
namespace {

constexpr std::chrono::milliseconds kDrainLook{20};
constexpr std::chrono::milliseconds kAbortTime{1'000};  // for cancelled requests to say so

telemetry::MetricsOptions named(const ServingOptions& serving) {
  telemetry::MetricsOptions options = serving.metrics;
  if (options.model_name.empty()) {
    options.model_name = serving.served_model_name;
  }
  return options;
}

std::vector<Route> all_routes(const Front& front) {
  std::vector<Route> out;
  for (const std::span<const Endpoint> dialect :
       {endpoints(), anthropic_endpoints(), ollama_endpoints()}) {
    for (Route& route : routes(front, dialect)) {
      out.push_back(std::move(route));
    }
  }
  return out;
}

// What comes with the model.
struct Model {
  Model(const ServerOptions& options, engine::Engine& engine, ServedText served,
        const std::atomic<bool>& draining)
      : text(std::move(served)),
        metrics(named(options.serving)),
        journal(metrics, options.serving.trace, options.serving.request_log, text),
        dispatcher(engine),
        prompts(options.prompt_threads, options.prompts_waiting_max),
        deltas(1, 0),
        context{.options = options.serving,
                .engine = engine,
                .text = text,
                .dispatcher = dispatcher,
                .prompts = prompts,
                .deltas = deltas,
                .metrics = metrics,
                .journal = journal,
                .draining = draining} {}

  ServedText text;
  telemetry::ServerMetrics metrics;
  Journal journal;
  Dispatcher dispatcher;
  WorkPool prompts;
  WorkPool deltas;
  ServerContext context;
};

}  // namespace

struct Server::Parts {
  explicit Parts(ServerOptions given) : options(std::move(given)) {
    http.limits = options.limits;
    http.guards = {.host = options.host,
                   .api_key = options.api_key,
                   .admin_api_key = options.admin_api_key,
                   .allowed_origins = options.allowed_origins,
                   .allowed_hosts = options.allowed_hosts};
    http.routes = options.playground ? with_playground(all_routes(front)) : all_routes(front);
    http.on_reply = [this](const Request& request, int status) {
      if (front.model) {
        front.model->metrics.count_reply(status);
      }
      log::debug("[{}] {} {} {}", request.id, request.method, protocol::printable(request.path),
                 status);
    };
  }

  // Coroutines and generations hold on to everything here, so what may still hold them ends first:
  // events, then the pools' work, then the io context with its suspended coroutines.
  ~Parts() {
    if (model) {
      model->dispatcher.stop();
      model->prompts.join();
      model->deltas.join();
    }
    listener.reset();
    work.reset();
    io.reset();
  }

  asio::awaitable<void> drain_and_stop();
  asio::awaitable<void> abort_and_stop();
  asio::awaitable<void> watch_engine();
  asio::awaitable<bool> wait_until_quiet(std::chrono::milliseconds timeout);
  asio::awaitable<void> pause(std::chrono::milliseconds time);
  int active() const { return front.model ? front.model->journal.active() : 0; }

  ServerOptions options;
  Front front;
  std::optional<asio::io_context> io{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work{
      asio::make_work_guard(*io)};
  std::optional<Model> model;  // the network thread sees it through `front`
  HttpContext http;
  std::optional<Listener> listener{std::in_place, *io, http};
  std::atomic<bool> stopping{false};
};

asio::awaitable<void> Server::Parts::pause(std::chrono::milliseconds time) {
  asio::steady_timer timer(*io, time);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

asio::awaitable<bool> Server::Parts::wait_until_quiet(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (active() > 0 && std::chrono::steady_clock::now() < deadline) {
    co_await pause(kDrainLook);
  }
  co_return active() == 0;
}

// The listener stays open while requests finish, so that /health can say `draining`.
asio::awaitable<void> Server::Parts::drain_and_stop() {
  http.closing = true;
  listener->close_idle();
  const bool finished = co_await wait_until_quiet(options.drain_timeout);
  if (!finished) {
    log::warning("drain: {} requests still ran after {} s and were cancelled", active(),
                 std::chrono::duration<double>(options.drain_timeout).count());
  }
  co_await abort_and_stop();
}

asio::awaitable<void> Server::Parts::abort_and_stop() {
  http.closing = true;
  listener->stop_accepting();
  if (front.model) {
    front.model->dispatcher.abort_all();
  }
  const bool aborted = co_await wait_until_quiet(kAbortTime);
  if (!aborted) {
    front.model->dispatcher.fail_all({ErrorCode::unavailable, "the server is shutting down", {}});
    co_await wait_until_quiet(kAbortTime);
  }
  listener->close_idle();
  for (int look = 0; look < 10 && listener->session_count() > 0; ++look) {
    co_await pause(kDrainLook);
  }
  listener->close_all();
  io->stop();
}

// A step that hangs would leave its clients waiting for ever: past the watchdog's time they get an
// error, and /health says `stuck` so that a supervisor can act; past twice that, on_stuck acts.
asio::awaitable<void> Server::Parts::watch_engine() {
  const auto timeout = options.serving.watchdog_timeout;
  for (;;) {
    co_await pause(
        std::clamp(timeout / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1'000)));
    const auto age = front.model->engine.stats().last_step_age;
    if (age > timeout && front.model->dispatcher.sequence_count() > 0) {
      front.model->dispatcher.fail_all(
          {ErrorCode::internal,
           fmt::format("the engine made no step for {} s (--watchdog-timeout)",
                       std::chrono::duration<double>(timeout).count()),
           {}});
    }
    if (age > 2 * timeout && options.on_stuck) {
      std::exchange(options.on_stuck, nullptr)();
    }
  }
}

Server::Server(ServerOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}

Server::~Server() = default;

Result<uint16_t> Server::listen() {
  return parts_->listener->listen(parts_->options.host, parts_->options.port);
}

void Server::run() {
  parts_->io->run();
}

void Server::serve(engine::Engine& engine, ServedText text,
                   std::optional<sampling::Params> sampling_defaults) {
  CHECK(!parts_->model, "a server serves one model");
  if (sampling_defaults) {
    parts_->options.serving.sampling_defaults = *sampling_defaults;
  }
  parts_->model.emplace(parts_->options, engine, std::move(text), parts_->front.draining);
  asio::post(*parts_->io, [parts = parts_.get()] {
    parts->front.model = &parts->model->context;
    asio::co_spawn(*parts->io, parts->watch_engine(), asio::detached);
  });
}

void Server::drain() {
  if (parts_->front.draining.exchange(true)) {
    return;
  }
  asio::post(*parts_->io, [parts = parts_.get()] {
    asio::co_spawn(*parts->io, parts->drain_and_stop(), asio::detached);
  });
}

void Server::stop() {
  parts_->front.draining = true;
  if (parts_->stopping.exchange(true)) {
    return;
  }
  asio::post(*parts_->io, [parts = parts_.get()] {
    asio::co_spawn(*parts->io, parts->abort_and_stop(), asio::detached);
  });
}

bool Server::draining() const {
  return parts_->front.draining;
}

}  // namespace pome::server
