#include <fmt/format.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <limits>

#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"

namespace pome::server {
namespace {

struct Health {
  int status = 200;
  const char* word = "ok";
};

Health health_of(bool draining, std::chrono::milliseconds watchdog_timeout,
                 const engine::EngineStats& stats) {
  if (draining || stats.draining) {
    return {503, "draining"};
  }
  if (!stats.ready) {
    return {503, "starting"};
  }
  if (stats.last_step_age > watchdog_timeout) {
    return {503, "stuck"};
  }
  return {};
}

Reply health_reply(const Health& health, const engine::EngineStats& stats) {
  json::object body;
  body["status"] = health.word;
  body["running"] = stats.running;
  body["waiting"] = stats.waiting;
  body["steps"] = stats.steps;
  body["last_step_age_ms"] = stats.last_step_age.count();
  return json_reply(health.status, body);
}

int64_t tokens_done(const engine::EngineStats& stats) {
  return stats.generated_tokens_total + stats.prompt_tokens_total;
}

Error no_token(std::string_view why) {
  return {ErrorCode::unavailable, fmt::format("no token was generated: {}", why), {}};
}

Result<std::shared_ptr<Generation>> start_one_token(ServerContext& context, Exchange& exchange) {
  PromptJob job{.tokens = {0}, .rid = fmt::format("health-{}", random_id())};
  job.fields.max_tokens = 1;
  job.fields.sampling.temperature = 0.0f;
  job.fields.ignore_eos = true;
  job.fields.priority = std::numeric_limits<int32_t>::max();
  job.fields.cache_namespace = "health";
  std::vector<PromptJob> prompts;
  prompts.push_back(std::move(job));
  Result<std::shared_ptr<Generation>> generation =
      Generation::start({.dispatcher = context.dispatcher,
                         .text = context.text,
                         .network = exchange.executor(),
                         .text_pool = context.deltas.executor()},
                        std::move(prompts));
  if (generation) {
    cancel_with_client(exchange, *generation);
  }
  return generation;
}

asio::awaitable<Status> finish_one_token(std::shared_ptr<Generation> generation,
                                         asio::steady_timer& deadline) {
  deadline.async_wait([weak = std::weak_ptr(generation)](boost::system::error_code code) {
    const auto running = weak.lock();
    if (!code && running) {
      running->cancel();
      running->fail(no_token("the engine takes too long"));
    }
  });
  Status status = no_token("it was aborted");
  for (;;) {
    const std::vector<Delta> deltas = co_await generation->next();
    if (deltas.empty()) {
      break;
    }
    for (const Delta& delta : deltas) {
      if (!delta.tokens.empty()) {
        status = Status();
      } else if (delta.finish == Finish::error) {
        status = no_token(delta.error.message);
      }
    }
  }
  deadline.cancel();
  co_return status;
}

// Waits until the engine has done anything for anybody: at once when its counters move, with a
// token of its own when nobody else wants one.
asio::awaitable<Status> see_progress(ServerContext& context, Exchange& exchange) {
  constexpr std::chrono::milliseconds kLook{10};
  asio::steady_timer deadline(exchange.executor(), context.options.health_generate_timeout);
  asio::steady_timer pause(exchange.executor());
  const int64_t before = tokens_done(context.engine.stats());
  while (std::chrono::steady_clock::now() < deadline.expiry() && !exchange.client_gone()) {
    const engine::EngineStats stats = context.engine.stats();
    if (tokens_done(stats) > before) {
      co_return Status();
    }
    if (stats.running + stats.waiting == 0) {
      Result<std::shared_ptr<Generation>> generation = start_one_token(context, exchange);
      if (generation) {
        Status finished = co_await finish_one_token(std::move(*generation), deadline);
        co_return finished;
      }
      if (generation.error().code != ErrorCode::queue_full) {
        co_return generation.error();
      }
    }
    pause.expires_after(kLook);
    boost::system::error_code ignored;
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  const auto timeout = context.options.health_generate_timeout;
  co_return no_token(fmt::format("the engine made no progress in {} ms", timeout.count()));
}

}  // namespace

// Health means progress: the age of the last step counts, and not only that the process answers.
asio::awaitable<void> handle_health(ServerContext& context, Exchange& exchange) {
  const engine::EngineStats stats = context.engine.stats();
  const Health health = health_of(context.draining, context.options.watchdog_timeout, stats);
  Reply answer = health_reply(health, stats);
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_health_of_start(const Front& front, Exchange& exchange) {
  const engine::EngineStats none;
  Reply answer = health_reply(health_of(front.draining, {}, none), none);
  co_await exchange.reply(std::move(answer));
}

// Under load the others' tokens are the proof, so a full queue does not hide a living engine, and
// the look costs nothing; an idle engine generates one token.
asio::awaitable<void> handle_health_generate(ServerContext& context, Exchange& exchange) {
  if (const Status serving = check_serving(context); !serving) {
    co_await refuse(context, exchange, serving.error());
    co_return;
  }
  const Status moves = co_await see_progress(context, exchange);
  if (!moves) {
    co_await refuse(context, exchange, moves.error());
    co_return;
  }
  json::object body;
  body["status"] = "ok";
  Reply answer = json_reply(200, body);
  co_await exchange.reply(std::move(answer));
}

}  // namespace pome::server
