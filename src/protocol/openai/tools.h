#pragma once

#include "base/json.h"
#include "protocol/object_reader.h"

namespace pome::protocol::openai {

inline constexpr size_t kToolsMax = 512;
inline constexpr size_t kToolNameBytesMax = 256;

// What a request says about tools.
struct ToolFields {
  // As they came, for the chat template and the parsers; empty where none may be called:
  // `tool_choice` "none" is a chat without tools.
  json::array tools = {};
  bool parallel_calls = true;  // false: the answer ends with its first call
};

// `tools`, `tool_choice` and `parallel_tool_calls`. A choice that could only be enforced
// ("required", a named function, `strict`) is refused.
ToolFields read_tool_fields(ObjectReader& reader);

// A list of function tools, each {"type": "function", "function": {"name", …}}.
json::array read_tools(ObjectReader& reader);

}  // namespace pome::protocol::openai
