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
  ChatPrompt prompt;
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
  ChatQuestion question{.separate_reasoning = request->separate_reasoning,
                        .stream_reasoning = request->stream_reasoning,
                        .parallel_calls = request->tools.parallel_calls};
  text::ChatInput& input = question.input;
  if (!request->tools.tools.empty()) {
    input.tools = request->tools.tools;
  }
  input.messages = request->messages;
  input.template_kwargs = request->template_variables;
  input.add_generation_prompt = request->add_generation_prompt;
  input.continue_final_message = request->continue_final_message;
  Result<ChatPrompt> prompt = encode_chat(context.text, question, *context_tokens);
  if (!prompt) {
    return prompt.error();
  }
  return ChatWork{.request = std::move(*request), .prompt = std::move(*prompt)};
}

std::vector<openai::ToolCall> calls_of(const std::vector<CallPiece>& pieces) {
  std::vector<openai::ToolCall> calls;
  for (const CallPiece& piece : pieces) {
    calls.push_back({piece.call, piece.id, piece.name, piece.arguments});
  }
  return calls;
}

std::string finish_reason(const Delta& delta) {
  const bool called = delta.finish == Finish::stop && delta.has_called;
  return called ? std::string("tool_calls") : finish_name(delta.finish);
}

// What is to be said of some text, and where its parts are told apart of them.
template <typename Output>
openai::Choice choice_of(const ChatWork& work, int32_t index, const Output& output) {
  openai::Choice choice{.index = index, .text = output.text, .calls = calls_of(output.calls)};
  if (work.prompt.reading.forms.reasoning != nullptr) {
    choice.reasoning = output.reasoning;
  }
  if (work.request.generation.top_logprobs >= 0) {
    choice.logprobs =
        openai_logprobs(work.prompt.reading.reads_anything() ? output.text_tokens : output.tokens,
                        StopEntries::left_out);
  }
  return choice;
}

class ChatStream {
 public:
  ChatStream(const ServerContext& context, const ChatWork& work, openai::ReplyHead head)
      : context_(context),
        work_(work),
        request_(work.request),
        head_(std::move(head)),
        last_(static_cast<size_t>(work.request.generation.choices)) {}

  std::string frames(const Delta& delta) {
    Delta& last = last_[static_cast<size_t>(delta.choice)];
    const bool first = !begun(delta);
    last = delta;
    const openai::Choice choice = choice_of(work_, delta.choice, delta);
    std::string out;
    const bool says_nothing = delta.text.empty() && delta.reasoning.empty() &&
                              delta.calls.empty() && (!choice.logprobs || choice.logprobs->empty());
    if (first || !says_nothing) {
      out += event(openai::chat_chunk(head_, choice, first));
    }
    if (delta.finish != Finish::none) {
      openai::Choice end{.index = delta.choice,
                         .finish_reason = finish_reason(delta),
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
  const ChatWork& work_;
  const openai::ChatRequest& request_;
  const openai::ReplyHead head_;
  std::vector<Delta> last_;
  std::vector<bool> begun_ = std::vector<bool>(static_cast<size_t>(protocol::kChoicesMax));
};

json::object whole_reply(const ServerContext& context, const ChatWork& work,
                         const openai::ReplyHead& head, std::vector<ChoiceOutput> outputs) {
  std::vector<openai::Choice> choices;
  std::vector<Delta> last;
  for (ChoiceOutput& output : outputs) {
    openai::Choice choice = choice_of(work, output.last.choice, output);
    choice.finish_reason = finish_reason(output.last);
    choice.matched_stop = output.last.matched_stop;
    choices.push_back(std::move(choice));
    last.push_back(std::move(output.last));
  }
  return openai::chat_reply(head, choices,
                            usage_of(context, last, work.request.generation.choices));
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
  prompts.push_back({.tokens = std::move(work->prompt.tokens),
                     .fields = request.generation,
                     .rid = rid,
                     .reading = work->prompt.reading});
  auto generation = start_generation(context, exchange, record, std::move(prompts),
                                     {.prompt = "messages", .limit = "max_tokens"}, request.stream);
  if (!generation) {
    co_await refuse(context, exchange, record, generation.error());
    co_return;
  }
  const openai::ReplyHead head = head_of(context, rid);
  if (request.stream) {
    ChatStream chat(context, *work, head);
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
  Reply answer = json_reply(200, whole_reply(context, *work, head, std::move(*outputs)));
  co_await exchange.reply(std::move(answer));
}

}  // namespace pome::server
