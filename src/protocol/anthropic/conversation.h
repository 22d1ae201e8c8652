#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace pome::protocol::anthropic {

inline constexpr size_t kMessagesMax = 4096;

// Messages as chat templates read them (OpenAI's shape, contents as strings).
struct Conversation {
  json::array messages;
  bool ends_with_answer = false;  // the last one is the beginning of the assistant's answer
};

// `messages` of a request, with `system` (null: none) before them. Turns of the same role that
// follow each other become one; blocks of text are joined by a line break; each tool result is a
// message of its own. Names of hints are added to `hints`.
Result<Conversation> read_conversation(const json::value* system, const json::value* messages,
                                       std::vector<std::string>& hints);

}  // namespace pome::protocol::anthropic
