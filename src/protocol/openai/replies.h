#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/json.h"

namespace pome::protocol::openai {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;               // of the completion's; 0 is not reported
  std::optional<int64_t> cached_tokens = {};  // absent: not reported
};

// What every object of one reply carries.
struct ReplyHead {
  std::string id = {};
  int64_t created_s = 0;   // Unix time
  std::string model = {};  // the served name
};

struct TokenText {
  Token token = 0;
  std::string bytes = {};  // may be half a code point
  float logprob = 0.0f;
};

struct TokenLogprobs {
  TokenText chosen = {};
  std::vector<TokenText> top = {};  // best first
  bool scored = true;               // false for a prompt's first token: it has no log probability
  int32_t characters = 0;  // code points that begin in it; 0 where it is no part of the text
};

// One call, or what a chunk adds to it: then id and name come with its first piece only.
struct ToolCall {
  int32_t index = 0;  // among the choice's calls
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // JSON, or a piece of it
};

using MatchedStop = std::variant<std::monostate, Token, std::string>;

struct Choice {
  int32_t index = 0;
  std::string text = {};
  std::optional<std::string> reasoning = {};  // chats alone; absent: not told apart
  std::vector<ToolCall> calls = {};           // chats alone
  std::optional<std::vector<TokenLogprobs>> logprobs = {};
  int32_t text_offset = 0;  // completions' logprobs: code points before this piece
  // "stop", "length", "abort", "tool_calls"; empty while it goes on.
  std::string finish_reason = {};
  MatchedStop matched_stop = {};
};

json::object usage_body(const Usage& usage);

json::object chat_reply(const ReplyHead& head, const std::vector<Choice>& choices,
                        const Usage& usage);
// The first chunk of a choice also names the role.
json::object chat_chunk(const ReplyHead& head, const Choice& choice, bool first);
json::object completion_reply(const ReplyHead& head, const std::vector<Choice>& choices,
                              const Usage& usage);
json::object completion_chunk(const ReplyHead& head, const Choice& choice);
// The last chunk of a stream that asked for usage: no choices.
json::object usage_chunk(const ReplyHead& head, std::string_view object, const Usage& usage);

struct ModelCard {
  std::string id = {};
  std::string root = {};  // where the weights came from, without its directory
  int64_t created_s = 0;
  int32_t context_tokens = 0;
};
json::object model_body(const ModelCard& card);
json::object models_body(const std::vector<ModelCard>& cards);

}  // namespace pome::protocol::openai
