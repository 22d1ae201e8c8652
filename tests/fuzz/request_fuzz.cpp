// rooms: base protocol protocol/openai protocol/native protocol/anthropic protocol/ollama
// Any bytes are refused or become a request; a refusal is a 400 with a message.
#include <cstdlib>
#include <string_view>

#include "protocol/anthropic/messages.h"
#include "protocol/native/generate.h"
#include "protocol/native/profile.h"
#include "protocol/native/tokenize.h"
#include "protocol/ollama/requests.h"
#include "protocol/openai/chat.h"
#include "protocol/openai/completions.h"

namespace {

template <typename T>
void check(const pome::Result<T>& result) {
  if (!result.ok() && (result.error().code != pome::ErrorCode::invalid_argument ||
                       result.error().message.empty())) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  const auto value = pome::parse_json(text);
  if (!value) {
    return 0;
  }
  check(pome::protocol::openai::parse_chat_request(*value, {}));
  check(pome::protocol::openai::parse_completion_request(*value, {}));
  check(pome::protocol::anthropic::parse_messages_request(*value, {}));
  check(pome::protocol::anthropic::parse_count_request(*value));
  check(pome::protocol::ollama::parse_chat_request(*value, {}));
  check(pome::protocol::ollama::parse_generate_request(*value, {}));
  check(pome::protocol::ollama::parse_show_request(*value));
  check(pome::protocol::native::parse_generate_request(*value, {}));
  check(pome::protocol::native::parse_tokenize_request(*value));
  check(pome::protocol::native::parse_detokenize_request(*value));
  check(pome::protocol::native::parse_abort_request(*value));
  check(pome::protocol::native::parse_profile_request(*value));
  return 0;
}
