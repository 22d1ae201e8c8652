// rooms: base text/chat
// A chat template, or JSON that holds some: it loads or is refused, and renders or is refused.
#include <cstddef>
#include <cstdint>
#include <string>

#include "text/chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pome::text::ChatTemplateSources sources;
  sources.chosen.emplace(reinterpret_cast<const char*>(data), size);
  const auto made =
      pome::text::ChatTemplate::load(sources, {{"bos_token", "<s>"}}, {"<s>", "</s>"});
  if (made) {
    const pome::json::object user = {{"role", "user"}, {"content", "a<s>b"}};
    const pome::json::object assistant = {{"role", "assistant"}, {"content", "c"}};
    (void)made->render({.messages = {user, assistant}, .continue_final_message = true});
    (void)made->render({.messages = {user}, .tools = pome::json::array{user}});
  }
  return 0;
}
