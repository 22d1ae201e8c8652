#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>

#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"

namespace pome::server {
namespace {

struct Health {
  int status = 200;
  const char* word = "ok";
};

Health health_of(const ServerContext& context, const engine::EngineStats& stats) {
  if (context.draining || stats.draining) {
    return {503, "draining"};
  }
  if (!stats.ready) {
    return {503, "starting"};
  }
  if (stats.last_step_age > context.options.watchdog_timeout) {
    return {503, "stuck"};
  }
  return {};
}

}  // namespace

// Health means progress: the age of the last step counts, and not only that the process answers.
asio::awaitable<void> handle_health(ServerContext& context, Exchange& exchange) {
  const engine::EngineStats stats = context.engine.stats();
  const Health health = health_of(context, stats);
  json::object body;
  body["status"] = health.word;
  body["running"] = stats.running;
  body["waiting"] = stats.waiting;
  body["steps"] = stats.steps;
  body["last_step_age_ms"] = stats.last_step_age.count();
  Reply answer = json_reply(health.status, body);
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_health_generate(ServerContext& context, Exchange& exchange) {
  if (const Status serving = check_serving(context); !serving) {
    Reply refusal = error_reply(serving.error());
    co_await exchange.reply(std::move(refusal));
    co_return;
  }
  PromptJob job{.tokens = {0}, .rid = fmt::format("health-{}", random_id())};
  job.fields.max_tokens = 1;
  job.fields.sampling.temperature = 0.0f;
  job.fields.ignore_eos = true;
  job.fields.cache_namespace = "health";
  std::vector<PromptJob> prompts;
  prompts.push_back(std::move(job));
  auto generation = start_generation(context, exchange, std::move(prompts), {"text", "max_tokens"});
  if (!generation) {
    Reply refusal = error_reply(generation.error());
    co_await exchange.reply(std::move(refusal));
    co_return;
  }
  const auto timeout = context.options.health_generate_timeout;
  asio::steady_timer deadline(exchange.executor(), timeout);
  deadline.async_wait([weak = std::weak_ptr(*generation), timeout](boost::system::error_code code) {
    const auto running = weak.lock();
    if (!code && running) {
      running->cancel();
      running->fail(
          {ErrorCode::unavailable, fmt::format("no token within {} ms", timeout.count()), {}});
    }
  });
  ActiveRequest active(context);
  const Result<std::vector<ChoiceOutput>> outputs =
      co_await collect(std::move(*generation), active);
  deadline.cancel();
  if (!outputs) {
    Reply refusal = error_reply(outputs.error());
    co_await exchange.reply(std::move(refusal));
    co_return;
  }
  json::object body;
  body["status"] = "ok";
  Reply answer = json_reply(200, body);
  co_await exchange.reply(std::move(answer));
}

}  // namespace pome::server
