#include "base/utf8.h"

#include <algorithm>

namespace pome {
namespace {

// The beginning of a text: a whole character, or the longest ill-formed sequence that one may begin
// with, at least a byte.
struct Sequence {
  size_t bytes = 0;
  bool well_formed = false;
};

Sequence first_sequence(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = character_bytes(at(0));
  for (size_t i = 1; i < length; ++i) {
    const bool follows =
        i < text.size() && (i == 1 ? may_be_second(at(0), at(1)) : at(i) >= 0x80 && at(i) <= 0xBF);
    if (!follows) {
      return {i, false};
    }
  }
  return length == 0 ? Sequence{1, false} : Sequence{length, true};
}

}  // namespace

size_t character_bytes(unsigned char lead) {
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return 2;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    return 3;
  }
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

bool may_be_second(unsigned char lead, unsigned char byte) {
  switch (lead) {
    case 0xE0:
      return byte >= 0xA0 && byte <= 0xBF;
    case 0xED:
      return byte >= 0x80 && byte <= 0x9F;
    case 0xF0:
      return byte >= 0x90 && byte <= 0xBF;
    case 0xF4:
      return byte >= 0x80 && byte <= 0x8F;
    default:
      return byte >= 0x80 && byte <= 0xBF;
  }
}

int32_t characters_in(std::string_view bytes) {
  return static_cast<int32_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::optional<size_t> first_invalid_byte(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Sequence sequence = first_sequence(text.substr(at));
    if (!sequence.well_formed) {
      return at;
    }
    at += sequence.bytes;
  }
  return std::nullopt;
}

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Sequence sequence = first_sequence(bytes);
    out += sequence.well_formed ? bytes.substr(0, sequence.bytes) : "\xEF\xBF\xBD";
    bytes.remove_prefix(sequence.bytes);
  }
  return out;
}

}  // namespace pome
