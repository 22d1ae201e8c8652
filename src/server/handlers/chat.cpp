#include "protocol/openai/chat.h"

#include <fmt/format.h>

#include <chrono>

#include "protocol/errors.h"
#include "protocol/openai/replies.h"
#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"

namespace pome::server {
namespace {

namespace openai = protocol::openai;

openai::ReplyHead head_of(const ServerContext& context, const std::string& rid) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.id = rid,
          .created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = context.options.served_model_name};
}

// Parsing and the template run on the pool: both read what a client may have made long.
struct ChatWork {
  openai::ChatRequest request;
  std::vector<Token> tokens;
};
Result<ChatWork> read_chat(const ServerContext& context, const Request& http) {
  Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  Result<openai::ChatRequest> request =
      openai::parse_chat_request(*body, context.options.sampling_defaults);
  if (!request) {
    return request.error();
  }
  const Result<int32_t> context_tokens = known_context(context);
  if (!context_tokens) {
    return context_tokens.error();
  }
  text::ChatInput input;
  input.messages = request->messages;
  input.template_kwargs = request->template_variables;
  input.add_generation_prompt = request->add_generation_prompt;
  input.continue_final_message = request->continue_final_message;
  Result<std::vector<Token>> tokens = encode_chat(context.text, input, *context_tokens);
  if (!tokens) {
    return tokens.error();
  }
  return ChatWork{.request = std::move(*request), .tokens = std::move(*tokens)};
}

class ChatStream {
 public:
  ChatStream(const ServerContext& context, const openai::ChatRequest& request,
             openai::ReplyHead head)
      : context_(context),
        request_(request),
        head_(std::move(head)),
        last_(static_cast<size_t>(request.generation.choices)) {}

  std::string frames(const Delta& delta) {
    Delta& last = last_[static_cast<size_t>(delta.choice)];
    const bool first = !begun(delta);
    last = delta;
    openai::Choice choice{.index = delta.choice, .text = delta.text};
    if (request_.generation.top_logprobs >= 0) {
      choice.logprobs = openai_logprobs(delta.tokens, StopEntries::left_out);
    }
    std::string out;
    const bool says_nothing = delta.text.empty() && (!choice.logprobs || choice.logprobs->empty());
    if (first || !says_nothing) {
      out += event(openai::chat_chunk(head_, choice, first));
    }
    if (delta.finish != Finish::none) {
      openai::Choice end{.index = delta.choice,
                         .finish_reason = finish_name(delta.finish),
                         .matched_stop = delta.matched_stop};
      out += event(openai::chat_chunk(head_, end, false));
    }
    return out;
  }

  std::string tail() const {
    if (!request_.stream_options.include_usage) {
      return {};
    }
    return protocol::sse_event(openai::usage_chunk(
        head_, "chat.completion.chunk", usage_of(context_, last_, request_.generation.choices)));
  }

 private:
  bool begun(const Delta& delta) {
    const bool was = begun_[static_cast<size_t>(delta.choice)];
    begun_[static_cast<size_t>(delta.choice)] = true;
    return was;
  }

  std::string event(json::object chunk) const {
    if (request_.stream_options.continuous_usage_stats) {
      chunk["usage"] = openai::usage_body(usage_of(context_, last_, request_.generation.choices));
    }
    return protocol::sse_event(chunk);
  }

  const ServerContext& context_;
  const openai::ChatRequest& request_;
  const openai::ReplyHead head_;
  std::vector<Delta> last_;
  std::vector<bool> begun_ = std::vector<bool>(static_cast<size_t>(protocol::kChoicesMax));
};

json::object whole_reply(const ServerContext& context, const openai::ChatRequest& request,
                         const openai::ReplyHead& head, std::vector<ChoiceOutput> outputs) {
  std::vector<openai::Choice> choices;
  std::vector<Delta> last;
  for (ChoiceOutput& output : outputs) {
    openai::Choice choice{.index = output.last.choice,
                          .text = std::move(output.text),
                          .finish_reason = finish_name(output.last.finish),
                          .matched_stop = output.last.matched_stop};
    if (request.generation.top_logprobs >= 0) {
      choice.logprobs = openai_logprobs(output.tokens, StopEntries::left_out);
    }
    choices.push_back(std::move(choice));
    last.push_back(std::move(output.last));
  }
  return openai::chat_reply(head, choices, usage_of(context, last, request.generation.choices));
}

}  // namespace

asio::awaitable<void> handle_chat(ServerContext& context, Exchange& exchange) {
  RequestRecord record(context.journal, exchange.request());
  Result<ChatWork> work =
      co_await context.prompts.run([&] { return read_chat(context, exchange.request()); });
  if (!work) {
    co_await refuse(context, exchange, record, work.error());
    co_return;
  }
  const openai::ChatRequest& request = work->request;
  log_hints(exchange.request(), request.hints);
  if (const Status named = check_model_name(context, request.model); !named) {
    co_await refuse(context, exchange, record, named.error());
    co_return;
  }
  if (exchange.client_gone()) {
    co_return;
  }
  const std::string rid =
      request.rid.empty() ? fmt::format("chatcmpl-{}", random_id()) : request.rid;
  std::vector<PromptJob> prompts;
  prompts.push_back({.tokens = std::move(work->tokens), .fields = request.generation, .rid = rid});
  auto generation = start_generation(context, exchange, record, std::move(prompts),
                                     {.prompt = "messages", .limit = "max_tokens"}, request.stream);
  if (!generation) {
    co_await refuse(context, exchange, record, generation.error());
    co_return;
  }
  const openai::ReplyHead head = head_of(context, rid);
  if (request.stream) {
    ChatStream chat(context, request, head);
    const StreamWriter writer{.frames = [&](const Delta& delta) { return chat.frames(delta); },
                              .tail = [&] { return chat.tail(); }};
    co_await stream(exchange, std::move(*generation), record, writer);
    co_return;
  }
  Result<std::vector<ChoiceOutput>> outputs = co_await collect(std::move(*generation), record);
  if (!outputs) {
    co_await refuse(context, exchange, record, outputs.error());
    co_return;
  }
  Reply answer = json_reply(200, whole_reply(context, request, head, std::move(*outputs)));
  co_await exchange.reply(std::move(answer));
}

}  // namespace pome::server
