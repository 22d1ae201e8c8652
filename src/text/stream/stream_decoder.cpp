#include "text/stream/stream_decoder.h"

#include <utility>

#include "base/utf8.h"

namespace pome::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

StreamDecoder::StreamDecoder(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(options),
      spaces_to_drop_(options.continues_text ? 0 : tokenizer_.stripped_spaces()) {}

void StreamDecoder::push(Token token, std::string& text) {
  if (options_.skip_special && tokenizer_.is_special(token)) {
    return;
  }
  const PieceBytes piece = tokenizer_.piece_bytes(token);
  if (piece.kind == PieceBytes::Kind::none) {
    return;
  }
  const bool fallback = piece.kind == PieceBytes::Kind::byte_fallback;
  if (fallback != pending_is_fallback_) {
    reject_pending(text);  // a character does not go on from one kind of piece into the other
    pending_is_fallback_ = fallback;
  }
  for (const char c : piece.bytes) {
    push_byte(static_cast<unsigned char>(c), text);
  }
}

void StreamDecoder::finish(std::string& text) {
  reject_pending(text);
}

void StreamDecoder::push_byte(unsigned char byte, std::string& text) {
  if (!pending_.empty()) {
    const auto lead = static_cast<unsigned char>(pending_.front());
    const bool follows =
        pending_.size() == 1 ? may_be_second(lead, byte) : (byte >= 0x80 && byte <= 0xBF);
    if (follows) {
      pending_ += static_cast<char>(byte);
      if (pending_.size() == character_bytes(lead)) {
        emit(pending_, text);
        pending_.clear();
      }
      return;
    }
    reject_pending(text);
  }
  pending_ += static_cast<char>(byte);
  const size_t needed = character_bytes(byte);
  if (needed == 0) {
    reject_pending(text);
  } else if (needed == 1) {
    emit(pending_, text);
    pending_.clear();
  }
}

void StreamDecoder::reject_pending(std::string& text) {
  const size_t marks = pending_is_fallback_ ? pending_.size() : (pending_.empty() ? 0 : 1);
  for (size_t i = 0; i < marks; ++i) {
    emit(kReplacement, text);
  }
  pending_.clear();
}

void StreamDecoder::emit(std::string_view character, std::string& text) {
  if (spaces_to_drop_ > 0) {
    if (character == " ") {
      --spaces_to_drop_;
      return;
    }
    spaces_to_drop_ = 0;
  }
  text += character;
}

}  // namespace pome::text
