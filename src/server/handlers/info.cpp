#include <fmt/format.h>

#include "protocol/openai/replies.h"
#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"

namespace pome::server {
namespace {

namespace openai = protocol::openai;

openai::ModelCard card_of(const ServerContext& context) {
  return {.id = context.options.served_model_name,
          .root = context.options.served_model_name,
          .created_s = context.options.created_s,
          .context_tokens = context.engine.model().context_tokens};
}

json::object details_body(engine::EngineDetails details) {
  json::array memory;
  for (const engine::MemoryFigure& figure : details.memory) {
    json::object item{{"item", figure.item}};
    if (figure.planned_bytes) {
      item["planned_bytes"] = *figure.planned_bytes;
    }
    if (figure.measured_bytes) {
      item["measured_bytes"] = *figure.measured_bytes;
    }
    memory.push_back(std::move(item));
  }
  json::object runs;
  for (const engine::KernelRuns& kernel : details.kernel_runs) {
    runs[kernel.variant] = kernel.runs;
  }
  json::object body = std::move(details.more);
  body["memory_items"] = std::move(memory);
  body["kernel_runs"] = std::move(runs);
  return body;
}

telemetry::EngineFigures figures_of(const engine::EngineStats& stats,
                                    const engine::EngineDetails& details) {
  telemetry::EngineFigures figures{
      .ready = stats.ready,
      .running = stats.running,
      .waiting = stats.waiting,
      .kv_tokens_used = stats.kv_tokens_used,
      .kv_tokens_cached = stats.kv_tokens_cached,
      .kv_tokens_max = stats.kv_tokens_max,
      .steps_total = stats.steps,
      .failed_steps_total = stats.failed_steps,
      .last_step_age_s = std::chrono::duration<double>(stats.last_step_age).count(),
      .computed_prompt_tokens_total = stats.prompt_tokens_total,
      .cached_prompt_tokens_total = stats.cached_tokens_total,
      .generated_tokens_total = stats.generated_tokens_total,
      .retracted_total = stats.retracted_total,
      .evicted_tokens_total = stats.evicted_tokens_total,
      .generated_tokens_per_s = stats.running > 0 ? stats.last_generated_tokens_per_s : 0.0};
  for (const engine::MemoryFigure& memory : details.memory) {
    figures.memory.push_back({memory.item, memory.planned_bytes, memory.measured_bytes});
  }
  for (const engine::KernelRuns& kernel : details.kernel_runs) {
    figures.kernels.push_back({kernel.variant, kernel.runs});
  }
  return figures;
}

}  // namespace

asio::awaitable<void> handle_models(ServerContext& context, Exchange& exchange) {
  const std::vector<openai::ModelCard> cards(1, card_of(context));
  Reply answer = json_reply(200, openai::models_body(cards));
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_model(ServerContext& context, Exchange& exchange) {
  const std::string id = exchange.request().path.substr(std::string_view("/v1/models/").size());
  if (id != context.options.served_model_name) {
    const Error error{ErrorCode::not_found,
                      fmt::format("the model does not exist; served here: '{}'",
                                  context.options.served_model_name),
                      "model"};
    co_await refuse(context, exchange, error);
    co_return;
  }
  Reply answer = json_reply(200, openai::model_body(card_of(context)));
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_server_info(ServerContext& context, Exchange& exchange) {
  const engine::EngineStats stats = context.engine.stats();
  const engine::ModelInfo& model = context.engine.model();
  json::object state;
  state["last_gen_throughput"] = stats.last_generated_tokens_per_s;
  state["num_running_reqs"] = stats.running;
  state["num_queue_reqs"] = stats.waiting;
  state["memory_usage"] =
      json::object{{"token_capacity", stats.kv_tokens_max}, {"tokens_used", stats.kv_tokens_used}};
  state["details"] = details_body(context.engine.details());
  json::object body = context.options.server_args;
  body["served_model_name"] = context.options.served_model_name;
  body["status"] = context.draining ? "draining" : stats.ready ? "ready" : "starting";
  body["model"] = json::object{{"architecture", model.architecture},
                               {"format", model.format},
                               {"context_length", model.context_tokens},
                               {"vocab_size", model.vocab_tokens},
                               {"backend", model.backend}};
  body["max_total_num_tokens"] = stats.kv_tokens_max;
  body["internal_states"] = json::array{std::move(state)};
  Reply answer = json_reply(200, body);
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_model_info(ServerContext& context, Exchange& exchange) {
  const engine::ModelInfo& model = context.engine.model();
  json::object body;
  body["model_path"] = model.path;
  body["tokenizer_path"] = model.path;
  body["is_generation"] = true;
  body["model_type"] = model.architecture;
  body["served_model_name"] = context.options.served_model_name;
  body["context_length"] = model.context_tokens;
  body["has_chat_template"] = context.text.chat.has_value();
  const auto name_or_null = [](const std::string& name) {
    return name.empty() ? json::value(nullptr) : json::value(name);
  };
  body["tool_call_parser"] = name_or_null(context.text.forms.calls_name());
  body["reasoning_parser"] = name_or_null(context.text.forms.reasoning_name());
  Reply answer = json_reply(200, body);
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_metrics(ServerContext& context, Exchange& exchange) {
  if (!context.options.metrics_enabled) {
    const Error error{ErrorCode::not_found, "the server was started without metrics", {}};
    co_await refuse(context, exchange, error);
    co_return;
  }
  Reply reply{
      .body = context.metrics.text(figures_of(context.engine.stats(), context.engine.details())),
      .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  co_await exchange.reply(std::move(reply));
}

// Browsers are shown the playground before they come here.
asio::awaitable<void> handle_root(ServerContext& context, Exchange& exchange) {
  const std::string_view accepted = exchange.request().header("Accept").value_or("");
  if (accepted.find("application/json") != std::string_view::npos) {
    json::object body;
    body["server"] = "pome";
    body["served_model_name"] = context.options.served_model_name;
    body["endpoints"] = json::array{"POST /v1/chat/completions", "GET /v1/models", "GET /health"};
    Reply answer = json_reply(200, body);
    answer.headers.emplace_back("Vary", "Accept, Origin");
    co_await exchange.reply(std::move(answer));
    co_return;
  }
  Reply reply{.body = fmt::format("pome serves {} here: POST /v1/chat/completions, GET /v1/models, "
                                  "GET /health\n",
                                  context.options.served_model_name),
              .content_type = "text/plain; charset=utf-8",
              .headers = {{"Vary", "Accept, Origin"}}};
  co_await exchange.reply(std::move(reply));
}

}  // namespace pome::server
