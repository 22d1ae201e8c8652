#include "protocol/anthropic/messages.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "protocol/anthropic/replies.h"
#include "server/handlers/answer.h"
#include "server/handlers/anthropic/content_blocks.h"
#include "server/handlers/anthropic/endpoints.h"

namespace pome::server {
namespace {

namespace anthropic = protocol::anthropic;

// Parsing and the template run on the pool: both read what a client may have made long.
struct MessagesWork {
  anthropic::MessagesRequest request;
  ChatPrompt prompt;
  bool context_is_less = false;  // than `max_tokens`
};

Result<json::value> read_body(const Request& http) {
  if (const auto version = http.header("anthropic-version")) {
    POME_TRY(anthropic::check_version(*version));
  }
  return parse_body(http);
}

Result<ChatPrompt> encode(const ServerContext& context, anthropic::PromptFields& fields) {
  POME_TRY(check_model_name(context, fields.model));
  const Result<int32_t> context_tokens = known_context(context);
  if (!context_tokens) {
    return context_tokens.error();
  }
  ChatQuestion question{.parallel_calls = fields.tools.parallel_calls};
  text::ChatInput& input = question.input;
  if (!fields.tools.tools.empty()) {
    input.tools = std::move(fields.tools.tools);
  }
  input.messages = std::move(fields.conversation.messages);
  input.template_kwargs = std::move(fields.template_variables);
  input.continue_final_message = fields.conversation.ends_with_answer;
  input.add_generation_prompt = !input.continue_final_message;
  return encode_chat(context.text, question, *context_tokens);
}

Result<MessagesWork> read_messages(const ServerContext& context, const Request& http) {
  const Result<json::value> body = read_body(http);
  if (!body) {
    return body.error();
  }
  Result<anthropic::MessagesRequest> request =
      anthropic::parse_messages_request(*body, context.options.sampling_defaults);
  if (!request) {
    return request.error();
  }
  Result<ChatPrompt> prompt = encode(context, request->prompt);
  if (!prompt) {
    return prompt.error();
  }
  const auto wanted =
      static_cast<int64_t>(prompt->tokens.size()) + request->generation.max_tokens.value_or(0);
  return MessagesWork{.request = std::move(*request),
                      .prompt = std::move(*prompt),
                      .context_is_less = wanted > context.engine.model().context_tokens};
}

Result<json::object> count_tokens(const ServerContext& context, const Request& http) {
  const Result<json::value> body = read_body(http);
  if (!body) {
    return body.error();
  }
  Result<anthropic::PromptFields> fields = anthropic::parse_count_request(*body);
  if (!fields) {
    return fields.error();
  }
  log_hints(http, fields->hints);
  const Result<ChatPrompt> prompt = encode(context, *fields);
  if (!prompt) {
    return prompt.error();
  }
  return anthropic::count_body(static_cast<int64_t>(prompt->tokens.size()));
}

anthropic::Usage usage_of(const ServerContext& context, const Delta& delta) {
  const int32_t cached = context.options.report_cached_tokens ? delta.cached_tokens : 0;
  return {.input_tokens = delta.prompt_tokens - cached,
          .cache_read_tokens = cached,
          .output_tokens = delta.completion_tokens};
}

anthropic::MessageEnd end_of(const MessagesWork& work, const Delta& last) {
  if (last.finish == Finish::length) {
    return {work.context_is_less ? "model_context_window_exceeded" : "max_tokens"};
  }
  if (const auto* sequence = std::get_if<std::string>(&last.matched_stop)) {
    return {"stop_sequence", *sequence};
  }
  return {last.has_called ? "tool_use" : "end_turn"};
}

// Messages know no such end.
std::optional<Error> error_of(const Delta& last) {
  if (last.finish != Finish::abort) {
    return std::nullopt;
  }
  return Error{ErrorCode::cancelled, "the request was aborted", {}};
}

class MessageStream {
 public:
  MessageStream(const ServerContext& context, const MessagesWork& work, anthropic::MessageHead head,
                std::string request_id)
      : context_(context),
        work_(work),
        head_(std::move(head)),
        request_id_(std::move(request_id)),
        blocks_(work.request.prompt.hides_thinking) {}

  std::string frames(const Delta& delta) {
    std::string out;
    if (!begun_) {
      begun_ = true;
      anthropic::Usage usage = usage_of(context_, delta);
      usage.output_tokens = 0;
      out = anthropic::message_start(head_, usage) + anthropic::ping();
    }
    out += blocks_.add(delta);
    if (delta.finish == Finish::none) {
      return out;
    }
    out += blocks_.finish();
    if (const auto error = error_of(delta)) {
      return out + anthropic::error_event(*error, request_id_);
    }
    return out + anthropic::message_delta(end_of(work_, delta), usage_of(context_, delta)) +
           anthropic::message_stop();
  }

  std::string error(const Error& error) const { return anthropic::error_event(error, request_id_); }

 private:
  const ServerContext& context_;
  const MessagesWork& work_;
  const anthropic::MessageHead head_;
  const std::string request_id_;
  ContentBlocks blocks_;
  bool begun_ = false;
};

asio::awaitable<Result<json::object>> whole_message(const ServerContext& context,
                                                    const MessagesWork& work,
                                                    const anthropic::MessageHead& head,
                                                    std::shared_ptr<Generation> generation,
                                                    RequestRecord& record) {
  ContentBlocks blocks(work.request.prompt.hides_thinking);
  Delta last;
  std::function<void(Delta)> take = [&](Delta delta) {
    blocks.add(delta);
    last = std::move(delta);
  };
  const Status status = co_await take_all(std::move(generation), record, std::move(take));
  if (!status) {
    co_return status.error();
  }
  if (const auto error = error_of(last)) {
    co_return *error;
  }
  blocks.finish();
  co_return anthropic::message_body(head, blocks.take(), end_of(work, last),
                                    usage_of(context, last));
}

PromptJob job_of(MessagesWork& work, const std::string& rid) {
  return {.tokens = std::move(work.prompt.tokens),
          .fields = work.request.generation,
          .max_tokens_yields = true,
          .rid = rid,
          .reading = work.prompt.reading};
}

}  // namespace

asio::awaitable<void> handle_messages(ServerContext& context, Exchange& exchange) {
  RequestRecord record(context.journal, exchange.request());
  Result<MessagesWork> work =
      co_await context.prompts.run([&] { return read_messages(context, exchange.request()); });
  if (!work) {
    co_await refuse(context, exchange, record, work.error());
    co_return;
  }
  const anthropic::MessagesRequest& request = work->request;
  log_hints(exchange.request(), request.prompt.hints);
  if (exchange.client_gone()) {
    co_return;
  }
  const anthropic::MessageHead head{
      .id = request.rid.empty() ? fmt::format("msg_{}", random_id()) : request.rid,
      .model = context.options.served_model_name};
  std::vector<PromptJob> prompts(1, job_of(*work, head.id));
  auto generation = start_generation(context, exchange, record, std::move(prompts),
                                     {.prompt = "messages", .limit = "max_tokens"}, request.stream);
  if (!generation) {
    co_await refuse(context, exchange, record, generation.error());
    co_return;
  }
  if (request.stream) {
    MessageStream message(context, *work, head, exchange.request().id);
    const StreamWriter writer{.frames = [&](const Delta& delta) { return message.frames(delta); },
                              .tail = [] { return std::string(); },
                              .error = [&](const Error& error) { return message.error(error); },
                              .end = ""};
    co_await stream(exchange, std::move(*generation), record, writer);
    co_return;
  }
  const Result<json::object> message =
      co_await whole_message(context, *work, head, std::move(*generation), record);
  if (!message) {
    co_await refuse(context, exchange, record, message.error());
    co_return;
  }
  Reply answer = json_reply(200, *message);
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_count_tokens(ServerContext& context, Exchange& exchange) {
  return reply_with(context, exchange, count_tokens);
}

}  // namespace pome::server
