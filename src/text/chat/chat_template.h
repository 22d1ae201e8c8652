#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/chat/template_sources.h"
#include "text/tokenizer/tokenizer.h"

namespace pome::text {

// What a template may name besides the messages: "bos_token", "eos_token", "pad_token", … with
// their texts.
json::object special_token_texts(const Tokenizer& tokenizer, const json::object* tokenizer_config);

struct ChatInput {
  json::array messages;                   // OpenAI's shape; content is a string, null, or parts
  std::optional<json::array> tools = {};  // absent: `tools` is none in the template
  json::object template_kwargs = {};  // chat_template_kwargs; win over everything but the messages
  bool add_generation_prompt = true;
  bool continue_final_message =
      false;  // the last message is left open; excludes add_generation_prompt
};

struct RenderedPrompt {
  std::string text;
  // Where a special token's text came out of a message: hand them to Tokenizer::encode as
  // `literal`.
  std::vector<TextSpan> literal;
};

// Messages to prompt text, as transformers' apply_chat_template renders them. Immutable, any
// thread.
class ChatTemplate {
 public:
  // An error names the line. Without any source: an error that names --chat-template.
  // `special_texts`: Tokenizer::special_texts(), so that a message cannot write control tokens.
  static Result<ChatTemplate> load(const ChatTemplateSources& sources, json::object special_tokens,
                                   std::vector<std::string> special_texts);

  // Policy beyond the template's own: role "developer" is "system" where the template does not know
  // it; a system message that the template refuses is put before the next user message; text parts
  // become one string (joined by a space) where the template expects strings. Errors: the
  // template's own refusal or failure (with its line), and a final message that cannot be
  // continued.
  Result<RenderedPrompt> render(const ChatInput& input) const;

  // For logs: "chat_template.jinja", "tokenizer_config.json (rag)", …
  const std::string& origin() const;

  // The Jinja that chats use; also, where there is another, the one of chats with tools.
  const std::string& jinja() const;

 private:
  struct State;
  explicit ChatTemplate(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace pome::text
