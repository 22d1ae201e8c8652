#include "server/generation/echo_text.h"

#include <string>

#include "text/tokenizer/gguf_vocabulary.h"

namespace pome::server {
namespace {

// GPT-2's printable stand-in for each byte: itself where it is printable, else the next free code
// point from U+0100 on.
bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

std::string utf8(int code_point) {
  if (code_point < 0x80) {
    return {static_cast<char>(code_point)};
  }
  return {static_cast<char>(0xc0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3f))};
}

}  // namespace

Result<ServedText> make_echo_text(text::ChatTemplateSources templates) {
  text::GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "gpt-2";
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(utf8(stands_for_itself(byte) ? byte : next++));
    vocabulary.token_types.push_back(1);
  }
  vocabulary.tokens.emplace_back("<|end|>");
  vocabulary.token_types.push_back(3);
  vocabulary.eos = 256;
  vocabulary.add_bos = false;
  Result<text::Tokenizer> tokenizer = text::Tokenizer::from_gguf(vocabulary);
  if (!tokenizer) {
    return tokenizer.error();
  }
  templates.jinja_file = "{%- for message in messages -%}{{ message.content }}{%- endfor -%}";
  Result<text::ChatTemplate> chat = text::ChatTemplate::load(
      templates, text::special_token_texts(*tokenizer, nullptr), tokenizer->special_texts());
  if (!chat) {
    return chat.error();
  }
  return ServedText{.tokenizer = std::move(*tokenizer), .chat = std::move(*chat)};
}

}  // namespace pome::server
