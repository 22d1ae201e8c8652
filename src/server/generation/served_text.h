#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "text/answer/answer_forms.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace pome::server {

// The text side of the served model. Immutable, any thread; copies share.
struct ServedText {
  text::Tokenizer tokenizer;
  std::optional<text::ChatTemplate> chat;  // a model without one completes, and refuses chats
  text::AnswerForms forms = {};            // how the model calls tools and thinks aloud
};

// Text longer than this many bytes per token of context fits no context, and is refused unread.
inline constexpr size_t kBytesPerTokenMax = 256;

struct ChatPrompt {
  std::string text;
  std::vector<Token> tokens;
};

// Messages to a prompt. Errors name the field `messages`.
Result<ChatPrompt> encode_chat(const ServedText& served, const text::ChatInput& input,
                               int32_t context_tokens);

// A raw prompt to tokens; errors name `field`.
Result<std::vector<Token>> encode_prompt(const ServedText& served, std::string_view prompt,
                                         bool add_special, int32_t context_tokens,
                                         std::string_view field);

}  // namespace pome::server
