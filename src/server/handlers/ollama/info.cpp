#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <utility>

#include "protocol/ollama/replies.h"
#include "protocol/ollama/requests.h"
#include "server/handlers/answer.h"
#include "server/handlers/ollama/endpoints.h"

// What Ollama's clients ask about the served model.
namespace pome::server {
namespace {

namespace ollama = protocol::ollama;

int64_t weight_bytes(const engine::EngineDetails& details) {
  for (const engine::MemoryFigure& figure : details.memory) {
    if (figure.item == "weights") {
      return figure.measured_bytes.value_or(figure.planned_bytes.value_or(0));
    }
  }
  return 0;
}

ollama::ModelCard card_of(const ServerContext& context) {
  const engine::ModelInfo& model = context.engine.model();
  ollama::ModelCard card{.name = context.options.served_model_name,
                         .architecture = model.architecture,
                         .weight_bytes = weight_bytes(context.engine.details()),
                         .context_tokens = model.context_tokens,
                         .vocab_tokens = model.vocab_tokens,
                         .capabilities = {"completion"}};
  const size_t space = model.format.find(' ');
  card.container = model.format.substr(0, space);
  std::transform(card.container.begin(), card.container.end(), card.container.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (space != std::string::npos) {
    card.quantization = model.format.substr(space + 1);
  }
  card.gpu_bytes = model.backend.starts_with("cpu") ? 0 : card.weight_bytes;
  card.modified =
      std::chrono::system_clock::time_point(std::chrono::seconds(context.options.created_s));
  if (context.text.chat) {
    card.chat_template = context.text.chat->jinja();
  }
  if (context.text.forms.calls) {
    card.capabilities.emplace_back("tools");
  }
  if (context.text.forms.reasoning != nullptr) {
    card.capabilities.emplace_back("thinking");
  }
  return card;
}

Result<json::object> show(const ServerContext& context, const Request& http) {
  const Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  const Result<std::string> name = ollama::parse_show_request(*body);
  if (!name) {
    return name.error();
  }
  POME_TRY(check_ollama_name(context, *name));
  return ollama::show_body(card_of(context));
}

}  // namespace

Status check_ollama_name(const ServerContext& context, const std::string& name) {
  constexpr std::string_view kLatest = ":latest";
  const bool tagged = name.ends_with(kLatest) && name != context.options.served_model_name;
  return check_model_name(context, tagged ? name.substr(0, name.size() - kLatest.size()) : name);
}

asio::awaitable<void> handle_ollama_tags(ServerContext& context, Exchange& exchange) {
  Reply answer = json_reply(200, ollama::tags_body(card_of(context)));
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_ollama_running(ServerContext& context, Exchange& exchange) {
  Reply answer = json_reply(200, ollama::running_body(card_of(context)));
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_ollama_show(ServerContext& context, Exchange& exchange) {
  return reply_with(context, exchange, show);
}

asio::awaitable<void> handle_ollama_version(ServerContext&, Exchange& exchange) {
  Reply answer = json_reply(200, ollama::version_body());
  co_await exchange.reply(std::move(answer));
}

}  // namespace pome::server
