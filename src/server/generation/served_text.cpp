#include "server/generation/served_text.h"

#include <fmt/format.h>

namespace pome::server {
namespace {

Status check_length(size_t bytes, int32_t context_tokens, std::string_view field) {
  if (bytes <= kBytesPerTokenMax * static_cast<size_t>(context_tokens)) {
    return {};
  }
  return invalid(fmt::format("'{}': {} bytes of text can never fit the context of {} tokens", field,
                             bytes, context_tokens),
                 std::string(field));
}

size_t content_bytes(const json::value& message) {
  const json::value* content =
      message.is_object() ? find(message.get_object(), "content") : nullptr;
  if (content == nullptr) {
    return 0;
  }
  if (const json::string* text = content->if_string()) {
    return text->size();
  }
  size_t bytes = 0;
  if (const json::array* parts = content->if_array()) {
    for (const json::value& part : *parts) {
      const json::value* text = part.is_object() ? find(part.get_object(), "text") : nullptr;
      bytes += text != nullptr && text->is_string() ? text->get_string().size() : 0;
    }
  }
  return bytes;
}

Result<std::vector<Token>> with_field(Result<std::vector<Token>> tokens, std::string_view field) {
  if (tokens) {
    return tokens;
  }
  Error error = tokens.error();
  error.field = field;
  return error;
}

}  // namespace

Result<ChatPrompt> encode_chat(const ServedText& served, const text::ChatInput& input,
                               int32_t context_tokens) {
  if (!served.chat) {
    return invalid(
        "the model has no chat template: use /v1/completions, or start the server with "
        "--chat-template",
        "messages");
  }
  size_t bytes = 0;
  for (const json::value& message : input.messages) {
    bytes += content_bytes(message);
  }
  POME_TRY(check_length(bytes, context_tokens, "messages"));
  Result<text::RenderedPrompt> rendered = served.chat->render(input);
  if (!rendered) {
    Error error = rendered.error();
    error.code = ErrorCode::invalid_argument;
    error.field = "messages";
    return error;
  }
  POME_TRY(check_length(rendered->text.size(), context_tokens, "messages"));
  Result<std::vector<Token>> tokens =
      with_field(served.tokenizer.encode(
                     rendered->text,
                     {.add_special = false, .parse_special = true, .literal = rendered->literal}),
                 "messages");
  if (!tokens) {
    return tokens.error();
  }
  return ChatPrompt{std::move(rendered->text), std::move(*tokens)};
}

Result<std::vector<Token>> encode_prompt(const ServedText& served, std::string_view prompt,
                                         bool add_special, int32_t context_tokens,
                                         std::string_view field) {
  POME_TRY(check_length(prompt.size(), context_tokens, field));
  return with_field(served.tokenizer.encode(prompt, {.add_special = add_special}), field);
}

}  // namespace pome::server
