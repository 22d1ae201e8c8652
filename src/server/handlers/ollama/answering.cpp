#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "protocol/ollama/replies.h"
#include "protocol/ollama/requests.h"
#include "server/handlers/answer.h"
#include "server/handlers/ollama/endpoints.h"
#include "server/handlers/ollama/spoken_answer.h"

namespace pome::server {
namespace {

namespace ollama = protocol::ollama;

constexpr const char* kLines = "application/x-ndjson";

// Parsing and the template run on the pool: both read what a client may have made long.
struct OllamaWork {
  ollama::Form form = ollama::Form::chat;
  ollama::Wanted wanted = {};
  ChatPrompt prompt = {};      // empty: nothing is to be generated
  bool wants_context = false;  // the conversation as token ids
};

Status check_thinking(const ServerContext& context, const ollama::Wanted& wanted) {
  if (!wanted.thinks || context.text.forms.reasoning != nullptr) {
    return {};
  }
  return invalid(
      "'think': the chat template of this model shows no form in which it would think aloud; if "
      "it has one, name it with --reasoning-parser",
      "think");
}

Status check_context(const ServerContext& context, const std::vector<Token>& tokens) {
  const int32_t vocabulary = context.engine.model().vocab_tokens;
  const auto wrong =
      std::find_if(tokens.begin(), tokens.end(), [&](Token token) { return token >= vocabulary; });
  if (wrong == tokens.end()) {
    return {};
  }
  return invalid(
      fmt::format("'context': expected token ids in [0, {}), got {}", vocabulary, *wrong),
      "context");
}

Result<ChatPrompt> encode(const ServerContext& context, json::array messages, json::array tools,
                          json::object variables) {
  const Result<int32_t> context_tokens = known_context(context);
  if (!context_tokens) {
    return context_tokens.error();
  }
  ChatQuestion question;
  question.input.messages = std::move(messages);
  question.input.template_kwargs = std::move(variables);
  if (!tools.empty()) {
    question.input.tools = std::move(tools);
  }
  return encode_chat(context.text, question, *context_tokens);
}

Result<OllamaWork> read_chat(const ServerContext& context, const Request& http) {
  const Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  Result<ollama::ChatRequest> request =
      ollama::parse_chat_request(*body, context.options.sampling_defaults);
  if (!request) {
    return request.error();
  }
  OllamaWork work{.form = ollama::Form::chat, .wanted = std::move(request->wanted)};
  POME_TRY(check_thinking(context, work.wanted));
  if (request->messages.empty()) {
    return work;
  }
  Result<ChatPrompt> prompt = encode(context, std::move(request->messages),
                                     std::move(request->tools), work.wanted.template_variables);
  if (!prompt) {
    return prompt.error();
  }
  work.prompt = std::move(*prompt);
  return work;
}

Result<ChatPrompt> encode_raw(const ServerContext& context, const std::string& prompt) {
  const Result<int32_t> context_tokens = known_context(context);
  if (!context_tokens) {
    return context_tokens.error();
  }
  Result<std::vector<Token>> tokens =
      encode_prompt(context.text, prompt, true, *context_tokens, "prompt");
  if (!tokens) {
    return tokens.error();
  }
  return ChatPrompt{.tokens = std::move(*tokens), .reading = {}};
}

// A question behind the conversation so far, which has begun already.
Result<ChatPrompt> encode_question(const ServerContext& context,
                                   const ollama::GenerateRequest& request) {
  json::array messages;
  if (!request.system.empty()) {
    messages.push_back(json::object{{"role", "system"}, {"content", request.system}});
  }
  messages.push_back(json::object{{"role", "user"}, {"content", request.prompt}});
  Result<ChatPrompt> prompt =
      encode(context, std::move(messages), {}, request.wanted.template_variables);
  if (!prompt) {
    Error error = prompt.error();
    error.field = error.field == "messages" ? "prompt" : error.field;
    return error;
  }
  if (!request.context.empty()) {
    std::vector<Token>& tokens = prompt->tokens;
    if (!tokens.empty() && tokens.front() == context.text.tokenizer.bos()) {
      tokens.erase(tokens.begin());
    }
    tokens.insert(tokens.begin(), request.context.begin(), request.context.end());
  }
  return prompt;
}

Result<OllamaWork> read_generate(const ServerContext& context, const Request& http) {
  const Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  Result<ollama::GenerateRequest> request =
      ollama::parse_generate_request(*body, context.options.sampling_defaults);
  if (!request) {
    return request.error();
  }
  POME_TRY(check_thinking(context, request->wanted));
  POME_TRY(check_context(context, request->context));
  OllamaWork work{.form = ollama::Form::generate, .wants_context = !request->raw};
  if (!request->prompt.empty()) {
    Result<ChatPrompt> prompt =
        request->raw ? encode_raw(context, request->prompt) : encode_question(context, *request);
    if (!prompt) {
      return prompt.error();
    }
    work.prompt = std::move(*prompt);
  }
  work.wanted = std::move(request->wanted);
  return work;
}

void append(ollama::Said& whole, ollama::Said piece) {
  whole.text += piece.text;
  whole.thinking += piece.thinking;
  std::move(piece.calls.begin(), piece.calls.end(), std::back_inserter(whole.calls));
  if (piece.logprobs && whole.logprobs) {
    std::move(piece.logprobs->begin(), piece.logprobs->end(), std::back_inserter(*whole.logprobs));
  } else if (piece.logprobs) {
    whole.logprobs = std::move(piece.logprobs);
  }
}

Error aborted() {
  return {ErrorCode::cancelled, "the request was aborted", {}};
}

std::string line(const json::object& body) {
  return to_string(body) + "\n";
}

// One request that generates, once it is read.
class Answering {
 public:
  Answering(const ServerContext& context, OllamaWork& work, SpokenAnswer::Clock::time_point arrived)
      : model_(context.options.served_model_name),
        form_(work.form),
        answer_({.logprobs = work.wanted.generation.top_logprobs >= 0,
                 .tells_parts_apart = work.prompt.reading.reads_anything(),
                 .arrived = arrived,
                 .started = SpokenAnswer::Clock::now(),
                 .context = work.wants_context
                                ? std::optional<std::vector<Token>>(work.prompt.tokens)
                                : std::nullopt}) {}

  std::string lines(const Delta& delta) {
    const ollama::Said said = answer_.add(delta);
    std::string out;
    if (!said.is_nothing()) {
      out += line(ollama::answer_body(form_, model_, said));
    }
    if (delta.finish == Finish::none) {
      return out;
    }
    if (delta.finish == Finish::abort) {
      return out + error_line(aborted());
    }
    if (const ollama::Said rest = answer_.finish(); !rest.is_nothing()) {
      out += line(ollama::answer_body(form_, model_, rest));
    }
    const ollama::Ended ended = answer_.ended(delta);
    return out + line(ollama::answer_body(form_, model_, {}, &ended));
  }

  static std::string error_line(const Error& error) { return line(ollama::error_body(error, {})); }

  asio::awaitable<Result<json::object>> whole(std::shared_ptr<Generation> generation,
                                              RequestRecord& record) {
    ollama::Said said;
    Delta last;
    std::function<void(Delta)> take = [&](Delta delta) {
      append(said, answer_.add(delta));
      last = std::move(delta);
    };
    const Status status = co_await take_all(std::move(generation), record, std::move(take));
    if (!status) {
      co_return status.error();
    }
    if (last.finish == Finish::abort) {
      co_return aborted();
    }
    append(said, answer_.finish());
    const ollama::Ended ended = answer_.ended(last);
    co_return ollama::answer_body(form_, model_, said, &ended);
  }

 private:
  const std::string model_;
  const ollama::Form form_;
  SpokenAnswer answer_;
};

// Nothing is asked: clients load a model in this way, and this one is there.
Result<json::object> loaded(const ServerContext& context, const OllamaWork& work) {
  POME_TRY(check_serving(context));
  const ollama::Ended ended{.reason = "load"};
  return ollama::answer_body(work.form, context.options.served_model_name, {}, &ended);
}

asio::awaitable<void> reply_or_refuse(ServerContext& context, Exchange& exchange,
                                      RequestRecord& record, const Result<json::object>& body) {
  if (!body) {
    co_await refuse(context, exchange, record, body.error());
    co_return;
  }
  Reply answer = json_reply(200, *body);
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> answer_work(ServerContext& context, Exchange& exchange, RequestRecord& record,
                                  OllamaWork work, SpokenAnswer::Clock::time_point arrived) {
  Answering answering(context, work, arrived);
  std::vector<PromptJob> prompts(1, PromptJob{.tokens = std::move(work.prompt.tokens),
                                              .fields = work.wanted.generation,
                                              .max_tokens_yields = true,
                                              .rid = fmt::format("ollama-{}", random_id()),
                                              .reading = work.prompt.reading});
  const FieldNames names{.prompt = work.form == ollama::Form::chat ? "messages" : "prompt",
                         .limit = "options.num_predict"};
  auto generation =
      start_generation(context, exchange, record, std::move(prompts), names, work.wanted.stream);
  if (!generation) {
    co_await refuse(context, exchange, record, generation.error());
    co_return;
  }
  if (work.wanted.stream) {
    const StreamWriter writer{
        .frames = [&](const Delta& delta) { return answering.lines(delta); },
        .tail = [] { return std::string(); },
        .content_type = kLines,
        .error = [](const Error& error) { return Answering::error_line(error); },
        .end = ""};
    co_await stream(exchange, std::move(*generation), record, writer);
    co_return;
  }
  const Result<json::object> body = co_await answering.whole(std::move(*generation), record);
  co_await reply_or_refuse(context, exchange, record, body);
}

using Read = Result<OllamaWork> (*)(const ServerContext&, const Request&);

asio::awaitable<void> serve(ServerContext& context, Exchange& exchange, Read read) {
  const SpokenAnswer::Clock::time_point arrived = SpokenAnswer::Clock::now();
  RequestRecord record(context.journal, exchange.request());
  Result<OllamaWork> work =
      co_await context.prompts.run([&] { return read(context, exchange.request()); });
  if (!work) {
    co_await refuse(context, exchange, record, work.error());
    co_return;
  }
  log_hints(exchange.request(), work->wanted.hints);
  if (const Status named = check_ollama_name(context, work->wanted.model); !named) {
    co_await refuse(context, exchange, record, named.error());
    co_return;
  }
  if (exchange.client_gone()) {
    co_return;
  }
  if (work->prompt.tokens.empty()) {
    const Result<json::object> body = loaded(context, *work);
    co_await reply_or_refuse(context, exchange, record, body);
    co_return;
  }
  co_await answer_work(context, exchange, record, std::move(*work), arrived);
}

}  // namespace

asio::awaitable<void> handle_ollama_chat(ServerContext& context, Exchange& exchange) {
  return serve(context, exchange, read_chat);
}

asio::awaitable<void> handle_ollama_generate(ServerContext& context, Exchange& exchange) {
  return serve(context, exchange, read_generate);
}

}  // namespace pome::server
