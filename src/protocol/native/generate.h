#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "protocol/generation_fields.h"

namespace pome::protocol::native {

inline constexpr size_t kPromptsMax = 64;
inline constexpr size_t kPromptTokensMax = size_t{4} << 20;

using Prompt = std::variant<std::string, std::vector<Token>>;

struct GenerateRequest {
  std::vector<Prompt> prompts = {};
  bool list = false;  // the prompts came as a list, so the reply is a list too
  std::vector<GenerationFields> generations = {};  // one a prompt
  std::vector<bool> max_tokens_named = {};  // false: the default, which yields to the context
  // One a prompt: log probabilities of the prompt from this position on, itself without one, since
  // that is what SGLang gives; -1: none.
  std::vector<int32_t> logprob_starts = {};
  std::vector<std::string> rids = {};  // one a prompt, or none
  std::string group_rid = {};          // the one id that a list of prompts was given
  bool stream = false;
  bool text_in_logprobs = false;
  std::vector<std::string> hints = {};
};

Result<GenerateRequest> parse_generate_request(const json::value& body,
                                               const sampling::Params& defaults);

struct LogprobEntry {
  Token token = 0;
  float logprob = 0.0f;
  std::string text = {};  // valid UTF-8; printed only where text was asked for
};

struct TokenLogprobs {
  LogprobEntry chosen = {};
  std::vector<LogprobEntry> top = {};
  std::vector<LogprobEntry> requested = {};
  bool scored = true;  // false for the first position of a prompt that is listed
};

struct GenerateOutput {
  std::string rid = {};
  int32_t index = 0;  // position in a list of replies
  std::string text = {};
  std::vector<Token> tokens = {};
  std::string finish_reason = {};  // "stop", "length", "abort"; empty while it goes on
  std::variant<std::monostate, Token, std::string> matched_stop = {};
  int32_t max_tokens = 0;
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t cached_tokens = 0;
  double latency_s = 0.0;
  std::optional<std::vector<TokenLogprobs>> logprobs = {};
  std::vector<TokenLogprobs> prompt_logprobs = {};
  bool says_prompt_logprobs = true;  // false: an event between a stream's first and last
  bool lists_top = false;            // top_logprobs_num above 0
  bool lists_requested = false;      // token_ids_logprob
  bool text_in_logprobs = false;
};

json::object generate_body(const GenerateOutput& output);

}  // namespace pome::protocol::native
