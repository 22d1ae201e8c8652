#include "text/stream/text_stream.h"

#include <algorithm>
#include <utility>

namespace pome::text {

TextStream::TextStream(Tokenizer tokenizer, StreamOptions options)
    : decoder_(std::move(tokenizer),
               {.skip_special = options.skip_special, .continues_text = options.continues_text}),
      matcher_(options.stops),
      options_(std::move(options)) {
  if (!options_.skip_special) {
    return;  // then special tokens are text and the matcher sees them
  }
  for (const std::string& stop : options_.stops) {
    const auto token = decoder_.tokenizer().token_id(stop);
    if (token && decoder_.tokenizer().is_special(*token)) {
      special_stops_.emplace_back(*token, stop);
    }
  }
}

TextDelta TextStream::push(std::span<const Token> tokens) {
  TextDelta delta;
  for (const Token token : tokens) {
    if (finished_) {
      break;
    }
    push_token(token, delta);
  }
  delta.finished = finished_;
  return delta;
}

void TextStream::push_token(Token token, TextDelta& delta) {
  ++completion_tokens_;
  const auto special = std::find_if(special_stops_.begin(), special_stops_.end(),
                                    [&](const auto& stop) { return stop.first == token; });
  if (special != special_stops_.end()) {
    std::string rest;
    decoder_.finish(rest);
    push_text(rest, delta);
    if (!finished_) {
      delta.text += matcher_.take_held();
      end_with(special->second, delta);
    }
    return;
  }
  std::string fresh;
  decoder_.push(token, fresh);
  push_text(fresh, delta);
}

void TextStream::push_text(std::string_view text, TextDelta& delta) {
  if (const auto match = matcher_.push(text, delta.text)) {
    end_with(options_.stops[*match], delta);
  }
}

void TextStream::end_with(const std::string& stop, TextDelta& delta) {
  if (options_.no_stop_trim) {
    delta.text += stop;
  }
  delta.matched_stop = stop;
  finished_ = true;
}

TextDelta TextStream::finish() {
  TextDelta delta;
  if (!finished_) {
    std::string rest;
    decoder_.finish(rest);
    push_text(rest, delta);
    if (!finished_) {
      delta.text += matcher_.take_held();
    }
  }
  finished_ = true;
  delta.finished = true;
  return delta;
}

}  // namespace pome::text
