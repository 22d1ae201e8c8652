#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "protocol/generation_fields.h"
#include "protocol/openai/tools.h"

namespace pome::protocol::openai {

inline constexpr size_t kMessagesMax = 4096;

struct StreamOptions {
  bool include_usage = false;           // one last chunk with usage and no choices
  bool continuous_usage_stats = false;  // usage in every chunk
};

struct ChatRequest {
  std::string model;  // empty when absent
  std::string rid;    // the client's id for the request; empty when absent
  // Checked, and otherwise as they came: `content` is a string, null (with tool calls) or text
  // parts.
  json::array messages;
  ToolFields tools;
  bool separate_reasoning = true;  // false: thoughts stay in the content, with their marks
  bool stream_reasoning = true;    // false: a thought comes in one piece, when it has ended
  json::object template_variables;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool stream = false;
  StreamOptions stream_options;
  GenerationFields generation;
  std::vector<std::string> hints;  // accepted fields that change nothing, for the debug log
};

// `defaults` are the sampling parameters of a request that names none.
Result<ChatRequest> parse_chat_request(const json::value& body, const sampling::Params& defaults);

// {"include_usage": …}; refused without `stream`.
StreamOptions read_stream_options(ObjectReader& reader, bool stream);

}  // namespace pome::protocol::openai
