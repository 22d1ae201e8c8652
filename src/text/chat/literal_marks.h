#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "text/tokenizer/tokenizer.h"

namespace pome::text {

// Keeps users from writing control tokens. Before a template is rendered, each special token's text
// inside the messages is replaced by a mark (a private-use character around a number) that the
// template passes through; afterwards the texts are put back and their places returned, so that
// they are encoded as ordinary text. Immutable.
class LiteralMarks {
 public:
  explicit LiteralMarks(std::vector<std::string> special_texts);

  // A mark that no text contains; says where the final message of a prompt is to be left open.
  static constexpr std::string_view kCut =
      "\xF4\x8F\xBF\xBD"
      "c"
      "\xF4\x8F\xBF\xBD";

  std::string mark(std::string_view text) const;
  // Every string in `value`, the keys of objects too.
  json::value mark(const json::value& value) const;

  struct Restored {
    std::string text;
    std::vector<TextSpan> literal;  // ascending
  };
  Restored restore(std::string_view rendered) const;

 private:
  // The special text at `at`, or none; the longest wins.
  const std::string* find_at(std::string_view text, size_t at, size_t& index) const;

  std::vector<std::string> texts_;
  std::unordered_map<std::string_view, size_t> index_of_;
  std::vector<size_t> lengths_;  // longest first, each once
  std::vector<bool> begins_;     // by first byte
};

}  // namespace pome::text
