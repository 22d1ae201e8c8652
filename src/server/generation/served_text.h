#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "text/answer/answer_forms.h"
#include "text/answer/answer_parser.h"
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

// What a chat asks for, whatever dialect it came in.
struct ChatQuestion {
  text::ChatInput input = {};
  bool separate_reasoning = true;  // false: thoughts stay in the text, with their marks
  bool stream_reasoning = true;    // false: a thought comes in one piece, when it has ended
  bool parallel_calls = true;      // false: the answer ends with its first call
};

struct ChatPrompt {
  std::string text = {};  // as the template rendered it
  std::vector<Token> tokens = {};
  text::AnswerReading reading = {};  // how the answer is to be told apart
};

// A chat to a prompt. Errors name the fields `messages` and `tools`.
Result<ChatPrompt> encode_chat(const ServedText& served, const ChatQuestion& question,
                               int32_t context_tokens);

// A raw prompt to tokens; errors name `field`.
Result<std::vector<Token>> encode_prompt(const ServedText& served, std::string_view prompt,
                                         bool add_special, int32_t context_tokens,
                                         std::string_view field);

}  // namespace pome::server
