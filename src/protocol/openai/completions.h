#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "protocol/generation_fields.h"
#include "protocol/openai/chat.h"

namespace pome::protocol::openai {

inline constexpr size_t kPromptsMax = 64;
inline constexpr size_t kPromptTokensMax = size_t{4} << 20;

using Prompt = std::variant<std::string, std::vector<Token>>;

struct CompletionRequest {
  std::string model = {};
  std::string rid = {};
  std::vector<Prompt> prompts = {};  // choice i·n + k is continuation k of prompt i
  bool echo = false;
  bool add_special_tokens = true;
  bool stream = false;
  StreamOptions stream_options = {};
  GenerationFields generation = {};
  bool max_tokens_named = false;  // false: the default, which yields to the context
  std::vector<std::string> hints = {};
};

Result<CompletionRequest> parse_completion_request(const json::value& body,
                                                   const sampling::Params& defaults);

}  // namespace pome::protocol::openai
