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

Status check_tools(const ServedText& served, const text::ChatInput& input) {
  if (!input.tools || served.forms.calls) {
    return {};
  }
  return invalid(
      "'tools': the chat template of this model shows no form in which it would call tools; if it "
      "has one, name it with --tool-call-parser",
      "tools");
}

// Whether the answer begins inside the thinking: as the prompt, or the answer's beginning, left it.
bool begins_inside(const text::ReasoningStyle& style, const text::ChatInput& input,
                   const std::string& prompt) {
  if (!input.continue_final_message) {
    return text::begins_inside(style, prompt);
  }
  const json::object& last = input.messages.back().as_object();
  if (const json::array* parts = find_array(last, "content"); parts != nullptr && !parts->empty()) {
    const auto text = find_string(parts->back().as_object(), "text");
    return text::continues_inside(style, text.value_or(""));
  }
  return text::continues_inside(style, find_string(last, "content").value_or(""));
}

text::AnswerReading reading_of(const ServedText& served, const ChatQuestion& question,
                               const std::string& prompt) {
  text::AnswerReading reading;
  if (question.input.tools) {
    reading.forms.calls = served.forms.calls;
    reading.tools = text::DeclaredTools(*question.input.tools);
    reading.one_call = !question.parallel_calls;
  }
  if (question.separate_reasoning && served.forms.reasoning != nullptr) {
    reading.forms.reasoning = served.forms.reasoning;
    reading.begins_inside = begins_inside(*reading.forms.reasoning, question.input, prompt);
    reading.reasoning_at_once = !question.stream_reasoning;
  }
  reading.keeps_control_tokens =
      reading.reads_anything() &&
      text::marks_are_among(reading.forms, served.tokenizer.special_texts());
  return reading;
}

}  // namespace

Result<ChatPrompt> encode_chat(const ServedText& served, const ChatQuestion& question,
                               int32_t context_tokens) {
  const text::ChatInput& input = question.input;
  POME_TRY(check_tools(served, input));
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
  text::AnswerReading reading = reading_of(served, question, rendered->text);
  return ChatPrompt{std::move(rendered->text), std::move(*tokens), std::move(reading)};
}

Result<std::vector<Token>> encode_prompt(const ServedText& served, std::string_view prompt,
                                         bool add_special, int32_t context_tokens,
                                         std::string_view field) {
  POME_TRY(check_length(prompt.size(), context_tokens, field));
  return with_field(served.tokenizer.encode(prompt, {.add_special = add_special}), field);
}

}  // namespace pome::server
