#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "protocol/generation_fields.h"

namespace pome::protocol::ollama {

inline constexpr size_t kContextTokensMax = size_t{4} << 20;

// What both ways to generate have in common.
struct Wanted {
  std::string model = {};
  bool stream = true;
  bool thinks = false;  // the request asks for thoughts
  json::object template_variables = {};
  GenerationFields generation = {};
  std::vector<std::string> hints = {};
};

struct ChatRequest {
  Wanted wanted = {};
  json::array messages = {};  // OpenAI's shape; none: only that the model is loaded is to be said
  json::array tools = {};     // OpenAI's shape
};

struct GenerateRequest {
  Wanted wanted = {};
  std::string prompt = {};  // empty: as without messages
  std::string system = {};
  bool raw = false;
  std::vector<Token> context = {};  // the conversation so far
};

// `defaults` are the sampling parameters of a request that names none.
Result<ChatRequest> parse_chat_request(const json::value& body, const sampling::Params& defaults);
Result<GenerateRequest> parse_generate_request(const json::value& body,
                                               const sampling::Params& defaults);
// The model that is asked about.
Result<std::string> parse_show_request(const json::value& body);

}  // namespace pome::protocol::ollama
