#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "protocol/anthropic/conversation.h"
#include "protocol/anthropic/tools.h"
#include "protocol/generation_fields.h"

namespace pome::protocol::anthropic {

// What decides the prompt, of `/v1/messages` and `/v1/messages/count_tokens` alike.
struct PromptFields {
  std::string model = {};
  Conversation conversation = {};
  ToolFields tools = {};
  json::object template_variables = {};
  bool hides_thinking = false;  // `thinking.display` "omitted": blocks without their text
  std::vector<std::string> hints = {};
};

struct MessagesRequest {
  PromptFields prompt = {};
  std::string rid = {};
  bool stream = false;
  GenerationFields generation = {};
};

// `defaults` are the sampling parameters of a request that names none.
Result<MessagesRequest> parse_messages_request(const json::value& body,
                                               const sampling::Params& defaults);
Result<PromptFields> parse_count_request(const json::value& body);

// The header `anthropic-version`, where there is one.
Status check_version(std::string_view version);

}  // namespace pome::protocol::anthropic
