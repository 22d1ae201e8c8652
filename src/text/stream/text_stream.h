#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/stream/stop_matcher.h"
#include "text/stream/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace pome::text {

struct StreamOptions {
  std::vector<std::string> stops = {};  // none of them empty
  bool no_stop_trim = false;            // the matched stop string stays at the end of the text
  bool skip_special = true;
  bool continues_text = false;  // DecodeOptions::continues_text
};

struct TextDelta {
  std::string text;       // may be empty; always whole code points
  bool finished = false;  // a stop string matched: send the stop, ignore later tokens
  std::optional<std::string> matched_stop;
};

// The text of one sequence as its tokens arrive. The deltas up to finish() concatenate to
// Tokenizer::decode of the tokens, cut at the first stop string. Work is linear in the output. One
// thread at a time.
class TextStream {
 public:
  TextStream(Tokenizer tokenizer, StreamOptions options);

  // Tokens after the one that completes a stop string are surplus: neither text nor counted.
  TextDelta push(std::span<const Token> tokens);
  // The sequence ended: what was held back, and U+FFFD for an unfinished character.
  TextDelta finish();

  bool finished() const { return finished_; }
  // Tokens that the text is made of, the one that completed a stop string included.
  int32_t completion_tokens() const { return completion_tokens_; }

 private:
  void push_token(Token token, TextDelta& delta);
  void push_text(std::string_view text, TextDelta& delta);
  void end_with(const std::string& stop, TextDelta& delta);

  StreamDecoder decoder_;
  StopMatcher matcher_;
  std::vector<std::pair<Token, std::string>>
      special_stops_;  // stops that are exactly a skipped special token
  StreamOptions options_;
  int32_t completion_tokens_ = 0;
  bool finished_ = false;
};

}  // namespace pome::text
