#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/object_reader.h"

namespace pome::protocol::anthropic {

inline constexpr size_t kToolsMax = 512;
inline constexpr size_t kToolNameBytesMax = 128;

// What a request says about tools.
struct ToolFields {
  // As chat templates and parsers read them (OpenAI's shape); empty where none may be called.
  json::array tools = {};
  bool parallel_calls = true;  // false: the answer ends with its first call
};

// `tools` and `tool_choice`. A choice that could only be enforced is refused.
ToolFields read_tool_fields(ObjectReader& reader, std::vector<std::string>& hints);

}  // namespace pome::protocol::anthropic
