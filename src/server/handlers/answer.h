#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/errors.h"
#include "protocol/openai/replies.h"
#include "server/handlers/context.h"

// What the endpoints that generate have in common.
namespace pome::server {

// Ends the request with an error. Where the queue is full, Retry-After says when places will be
// free at the rate at which answers end now.
asio::awaitable<void> refuse(ServerContext& context, Exchange& exchange, const Error& error);
asio::awaitable<void> refuse(ServerContext& context, Exchange& exchange, RequestRecord& record,
                             const Error& error);

// 503 while the model loads or the server drains.
Status check_serving(const ServerContext& context);
// The most tokens that prompt and answer may have together; 503 until the model says so.
Result<int32_t> known_context(const ServerContext& context);
// Any name is fine, unless --strict-model-name.
Status check_model_name(const ServerContext& context, const std::string& name);
// The debug line that names the accepted fields that change nothing.
void log_hints(const Request& request, const std::vector<std::string>& hints);

// The body as JSON. UTF-8, depth and trailing text are checked.
Result<json::value> parse_body(const Request& request);

// The engine drops the work as soon as the client is seen to be gone.
void cancel_with_client(Exchange& exchange, const std::shared_ptr<Generation>& generation);

// How the endpoint calls what the engine calls "prompt", "max_tokens" and so on, for its errors.
struct FieldNames {
  std::string_view prompt;
  std::string_view limit;
  std::string_view least = "min_tokens";
  std::string_view scores = "logprobs";
  std::string_view requested = "logprobs";
};
// Starts the generation and ties it to the client: it is cancelled when the client goes.
Result<std::shared_ptr<Generation>> start_generation(ServerContext& context, Exchange& exchange,
                                                     RequestRecord& record,
                                                     std::vector<PromptJob> prompts,
                                                     const FieldNames& names, bool stream);

// Everything that one choice has said.
struct ChoiceOutput {
  std::string text = {};
  std::string reasoning = {};
  std::vector<CallPiece> calls = {};  // whole ones
  std::vector<OutputToken> text_tokens = {};
  std::vector<OutputToken> tokens = {};
  std::vector<OutputToken> prompt_scores = {};
  Delta last = {};  // finish, matched stop, error and counts
};

// Waits for the end. An error of any choice is the error of all, and cancels the rest.
asio::awaitable<Status> take_all(std::shared_ptr<Generation> generation, RequestRecord& record,
                                 std::function<void(Delta)> take);
// The same, with what each choice has said.
asio::awaitable<Result<std::vector<ChoiceOutput>>> collect(std::shared_ptr<Generation> generation,
                                                           RequestRecord& record);

// For endpoints that generate nothing: a 200 of what `work` makes of the request, on the pool.
asio::awaitable<void> reply_with(ServerContext& context, Exchange& exchange,
                                 Result<json::object> (*work)(const ServerContext&,
                                                              const Request&));

// A 200 of the body that `make` gives. One with scores may be long, so it is made on the pool.
asio::awaitable<Reply> make_reply(ServerContext& context, bool has_scores,
                                  std::function<json::value()> make);

// {"error": …} as a server-sent event.
std::string openai_error_event(const Error& error);

// Streams until the end. `frames` turns one delta into events; `tail` gives what stands between the
// last delta and `end`. Errors before the first delta are a plain reply, later ones an event.
struct StreamWriter {
  std::function<std::string(const Delta&)> frames;
  std::function<std::string()> tail;
  // For text that is cumulative: takes a delta in without saying it, because a later one of the
  // same batch will say both. Used where a client is so slow that events pile up; absent where each
  // delta counts.
  std::function<void(const Delta&)> skip = {};
  const char* content_type = kEventStream;
  std::function<std::string(const Error&)> error = openai_error_event;
  const char* end = protocol::kSseDone;  // after an error too
};
asio::awaitable<void> stream(Exchange& exchange, std::shared_ptr<Generation> generation,
                             RequestRecord& record, const StreamWriter& writer);

// Choice k of prompt i: counts of the prompts once, of the outputs each.
protocol::openai::Usage usage_of(const ServerContext& context, const std::vector<Delta>& last,
                                 int32_t choices_per_prompt);

// In chats, entries belong to the content, which the token that ended it is no part of; in
// completions there is one for each token that was generated.
enum class StopEntries { left_out, listed };
std::vector<protocol::openai::TokenLogprobs> openai_logprobs(const std::vector<OutputToken>& tokens,
                                                             StopEntries stops);

}  // namespace pome::server
