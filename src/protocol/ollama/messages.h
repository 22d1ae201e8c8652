#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace pome::protocol::ollama {

inline constexpr size_t kMessagesMax = 4096;

// Messages as chat templates read them (OpenAI's shape). Calls and results without ids get some.
// Names of hints are added to `hints`.
Result<json::array> read_messages(const json::array& messages, std::vector<std::string>& hints);

}  // namespace pome::protocol::ollama
