#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "text/tokenizer/tokenizer.h"

namespace pome::text {

// Tokens to text, one at a time, in whole code points. The pieces and finish() concatenate to
// Tokenizer::decode of all tokens. Holds at most three bytes back. One thread at a time.
class StreamDecoder {
 public:
  StreamDecoder(Tokenizer tokenizer, DecodeOptions options);

  // Appends what `token` completes to `text`.
  void push(Token token, std::string& text);
  // Appends U+FFFD for what stayed unfinished.
  void finish(std::string& text);

  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  void push_byte(unsigned char byte, std::string& text);
  void reject_pending(std::string& text);
  void emit(std::string_view character, std::string& text);

  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::string pending_;  // the beginning of a character
  bool pending_is_fallback_ = false;
  size_t spaces_to_drop_ = 0;  // at the start of the text
};

}  // namespace pome::text
