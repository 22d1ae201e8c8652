#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/reading/reader.h"
#include "text/reading/task.h"
#include "text/tool_parsers/values/json_writer.h"

namespace pome::text {

// How a dialect writes values. Every style takes JSON and what models write for it: single quotes,
// True, False and None, trailing commas, raw control characters in strings, unknown escapes.
struct LiteralStyle {
  bool python = false;                // tuples, triple quotes
  bool bare = false;                  // keys, and strings of one word, without quotes
  std::string_view string_mark = {};  // a string's quote, such as <|"|>; no escapes inside
};

inline constexpr int kLiteralDepthMax = 64;  // objects and lists in one another

// Reads one value and writes it as JSON while it comes. False: the text is not one, and the reader
// stands where it went wrong; what was written is the beginning of valid JSON. Of two equal keys
// the first counts.
Task<bool> read_literal(Reader& in, JsonWriter& out, LiteralStyle style, int depth = 0);

// A quoted string's text; the reader stands at the quote.
Task<std::optional<std::string>> read_quoted(Reader& in);

// A whole text as JSON; nothing if it is no value, or more than one. Python's spelling counts.
std::optional<std::string> json_of_literal(std::string_view text);

bool is_json_number(std::string_view text);

}  // namespace pome::text
