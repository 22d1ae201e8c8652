#include "text/tool_parsers/values/literal.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <unordered_set>
#include <utility>

namespace pome::text {
namespace {

constexpr size_t kBareMax = 256;  // bytes of a key or word without quotes

struct Word {
  std::string_view spelling;
  std::string_view json;
};
constexpr std::array<Word, 6> kWords = {{{"true", "true"},
                                         {"false", "false"},
                                         {"null", "null"},
                                         {"True", "true"},
                                         {"False", "false"},
                                         {"None", "null"}}};

bool is_word_byte(int byte) {
  return byte > 0 && byte < 128 && std::isalnum(byte) != 0;
}
bool is_number_byte(int byte) {
  return (byte >= '0' && byte <= '9') || byte == '-' || byte == '+' || byte == '.' || byte == 'e' ||
         byte == 'E';
}

void append_utf8(uint32_t code, std::string& out) {
  const auto byte = [&](uint32_t bits) { out += static_cast<char>(bits); };
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    code = 0xFFFD;
  }
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

// `digits` hexadecimal digits, or nothing and no movement.
Task<std::optional<uint32_t>> read_hex(Reader& in, int digits) {
  const size_t start = in.position();
  uint32_t code = 0;
  for (int i = 0; i < digits; ++i) {
    const int next = co_await in.peek();
    if (next == Reader::kEnd || std::isxdigit(next) == 0) {
      in.rewind(start);
      co_return std::nullopt;
    }
    const int digit = std::isdigit(next) != 0 ? next - '0' : (next | 0x20) - 'a' + 10;
    code = code << 4 | static_cast<uint32_t>(digit);
    in.take();
  }
  co_return code;
}

// After "\u": the code point, of two halves where the first is one. A half alone is U+FFFD.
Task<std::optional<uint32_t>> read_unicode_escape(Reader& in) {
  const std::optional<uint32_t> first = co_await read_hex(in, 4);
  if (!first || *first < 0xD800 || *first > 0xDBFF) {
    co_return first;
  }
  const size_t after_first = in.position();
  const bool escaped = co_await in.accept("\\u");
  if (escaped) {
    const std::optional<uint32_t> second = co_await read_hex(in, 4);
    if (second && *second >= 0xDC00 && *second <= 0xDFFF) {
      co_return 0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00);
    }
  }
  in.rewind(after_first);
  co_return 0xFFFD;
}

// After a backslash: what the escape stands for. An unknown one (\d in a regular expression) stands
// for itself. Nothing: the text ended.
Task<std::optional<std::string>> read_escape(Reader& in) {
  const int next = co_await in.peek();
  if (next == Reader::kEnd) {
    co_return std::nullopt;
  }
  in.take();
  static constexpr std::string_view kNames = "ntrbf/\\\"'";
  static constexpr std::string_view kMeanings = "\n\t\r\b\f/\\\"'";
  const size_t known = kNames.find(static_cast<char>(next));
  if (known != std::string_view::npos) {
    co_return std::string(1, kMeanings[known]);
  }
  std::optional<uint32_t> code;
  if (next == 'u') {
    code = co_await read_unicode_escape(in);
  } else if (next == 'x') {
    code = co_await read_hex(in, 2);
  } else if (next == 'U') {
    code = co_await read_hex(in, 8);
  }
  std::string text;
  if (code) {
    append_utf8(*code, text);
  } else {
    text = {'\\', static_cast<char>(next)};
  }
  co_return text;
}

// Where a string's text goes: to JSON, or into a variable.
struct StringTarget {
  JsonWriter* json = nullptr;
  std::string* text = nullptr;

  void add(std::string_view piece) const {
    if (json) {
      json->string_text(piece);
    } else {
      *text += piece;
    }
  }
};

// Up to and with `closer`: a quote, or three. False: the text ended.
Task<bool> read_string_body(Reader& in, std::string closer, StringTarget target) {
  const std::string special = {closer[0], '\\'};
  while (true) {
    const std::string_view arrived = in.arrived();
    const size_t plain = std::min(arrived.find_first_of(special), arrived.size());
    target.add(arrived.substr(0, plain));
    in.take(plain);
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return false;
    }
    if (next == '\\') {
      in.take();
      const std::optional<std::string> meaning = co_await read_escape(in);
      if (!meaning) {
        co_return false;
      }
      target.add(*meaning);
    } else if (next == closer[0]) {
      const bool closed = co_await in.accept(closer);
      if (closed) {
        co_return true;
      }
      target.add(closer.substr(0, 1));
      in.take();
    }
  }
}

// Up to and with `mark`, without escapes.
Task<bool> read_marked_body(Reader& in, JsonWriter& out, std::string mark) {
  while (true) {
    const std::string_view arrived = in.arrived();
    const size_t plain = std::min(arrived.find(mark[0]), arrived.size());
    out.string_text(arrived.substr(0, plain));
    in.take(plain);
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return false;
    }
    if (next == static_cast<unsigned char>(mark[0])) {
      const bool closed = co_await in.accept(mark);
      if (closed) {
        co_return true;
      }
      out.string_text(mark.substr(0, 1));
      in.take();
    }
  }
}

Task<bool> read_string_value(Reader& in, JsonWriter& out, LiteralStyle style) {
  const char quote = static_cast<char>(co_await in.peek());
  std::string closer(1, quote);
  if (style.python) {
    const bool triple = co_await in.accept(std::string(3, quote));
    if (triple) {
      closer = std::string(3, quote);
    } else {
      in.take();
    }
  } else {
    in.take();
  }
  out.begin_string();
  const bool closed = co_await read_string_body(in, closer, {.json = &out});
  if (closed) {
    out.end_string();
  }
  co_return closed;
}

// A number, or one of the words; in a bare style another word is a string.
Task<bool> read_plain_value(Reader& in, JsonWriter& out, LiteralStyle style) {
  const size_t start = in.position();
  while (true) {
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      in.rewind(start);  // it may have been about to go on
      co_return false;
    }
    const bool stays = style.bare ? next != ',' && next != '}' && next != ']' && next != '<'
                                  : is_number_byte(next) || is_word_byte(next);
    if (!stays) {
      break;
    }
    in.take();
    if (in.position() - start > kBareMax) {
      in.rewind(start);
      co_return false;
    }
  }
  std::string_view text = in.since(start);
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  for (const Word& word : kWords) {
    if (text == word.spelling) {
      out.scalar(word.json);
      co_return true;
    }
  }
  if (is_json_number(text)) {
    out.scalar(text);
    co_return true;
  }
  if (style.bare && !text.empty()) {
    out.begin_string();
    out.string_text(text);
    out.end_string();
    co_return true;
  }
  in.rewind(start);
  co_return false;
}

Task<std::optional<std::string>> read_key(Reader& in, LiteralStyle style) {
  const int quote = co_await in.peek();
  if (quote == '"' || quote == '\'') {
    std::optional<std::string> quoted = co_await read_quoted(in);
    co_return quoted;
  }
  const size_t start = in.position();
  while (style.bare) {
    const int next = co_await in.peek();
    if (next == ':' && in.position() > start) {
      co_return std::string(in.since(start));
    }
    if (next == Reader::kEnd || next == ':' || next == ',' || next == '{' || next == '}' ||
        next == '[' || next == ']' || next == '\n' || in.position() - start >= kBareMax) {
      break;
    }
    in.take();
  }
  in.rewind(start);
  co_return std::nullopt;
}

// After an element: true where another may follow, having passed the comma.
Task<bool> pass_comma(Reader& in) {
  co_await in.skip_space();
  const bool comma = co_await in.accept(",");
  co_await in.skip_space();
  co_return comma;
}

Task<bool> read_object(Reader& in, JsonWriter& out, LiteralStyle style, int depth) {
  std::unordered_set<std::string> seen;
  in.take();
  out.begin_object();
  co_await in.skip_space();
  bool may_follow = true;
  while (true) {
    const int next = co_await in.peek();
    if (next == '}') {
      in.take();
      out.end_object();
      co_return true;
    }
    if (!may_follow) {
      co_return false;
    }
    const std::optional<std::string> key = co_await read_key(in, style);
    if (!key) {
      co_return false;
    }
    co_await in.skip_space();
    const bool colon = co_await in.accept(":");
    if (!colon) {
      co_return false;
    }
    co_await in.skip_space();
    bool read = false;
    if (seen.insert(*key).second) {
      out.key(*key);
      read = co_await read_literal(in, out, style, depth + 1);
    } else {
      JsonWriter dropped;
      read = co_await read_literal(in, dropped, style, depth + 1);
    }
    if (!read) {
      co_return false;
    }
    may_follow = co_await pass_comma(in);
  }
}

Task<bool> read_list(Reader& in, JsonWriter& out, LiteralStyle style, int closer, int depth) {
  in.take();
  out.begin_array();
  co_await in.skip_space();
  bool may_follow = true;
  while (true) {
    const int next = co_await in.peek();
    if (next == closer) {
      in.take();
      out.end_array();
      co_return true;
    }
    if (!may_follow) {
      co_return false;
    }
    const bool read = co_await read_literal(in, out, style, depth + 1);
    if (!read) {
      co_return false;
    }
    may_follow = co_await pass_comma(in);
  }
}

Task<void> read_whole(Reader& in, JsonWriter& out, bool& whole) {
  co_await in.skip_space();
  const bool read = co_await read_literal(in, out, {.python = true});
  co_await in.skip_space();
  const int next = co_await in.peek();
  whole = read && next == Reader::kEnd;
}

}  // namespace

Task<bool> read_literal(Reader& in, JsonWriter& out, LiteralStyle style, int depth) {
  const int next = co_await in.peek();
  bool read = false;
  const bool nests = next == '{' || next == '[' || (next == '(' && style.python);
  if (nests && depth >= kLiteralDepthMax) {
    co_return false;
  }
  if (next == '{') {
    read = co_await read_object(in, out, style, depth);
  } else if (next == '[') {
    read = co_await read_list(in, out, style, ']', depth);
  } else if (next == '(' && style.python) {
    read = co_await read_list(in, out, style, ')', depth);
  } else if (next == '"' || next == '\'') {
    read = co_await read_string_value(in, out, style);
  } else {
    bool marked = false;
    if (!style.string_mark.empty()) {
      marked = co_await in.accept(style.string_mark);
    }
    if (marked) {
      out.begin_string();
      read = co_await read_marked_body(in, out, std::string(style.string_mark));
      if (read) {
        out.end_string();
      }
    } else {
      read = co_await read_plain_value(in, out, style);
    }
  }
  co_return read;
}

Task<std::optional<std::string>> read_quoted(Reader& in) {
  const int quote = co_await in.peek();
  if (quote != '"' && quote != '\'') {
    co_return std::nullopt;
  }
  in.take();
  std::string text;
  const bool closed =
      co_await read_string_body(in, std::string(1, static_cast<char>(quote)), {.text = &text});
  if (!closed) {
    co_return std::nullopt;
  }
  co_return text;
}

std::optional<std::string> json_of_literal(std::string_view text) {
  Reader in;
  JsonWriter out;
  bool whole = false;
  in.push(text);
  in.push(" ");  // a number that ends the text has ended
  const Task<void> task = read_whole(in, out, whole);
  in.end();
  if (!whole || !task.done()) {
    return std::nullopt;
  }
  return out.take();
}

bool is_json_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      ++at;
    }
    return at - start;
  };
  if (at < text.size() && text[at] == '-') {
    ++at;
  }
  const size_t first = at;
  const size_t whole = digits();
  if (whole == 0 || (whole > 1 && text[first] == '0')) {
    return false;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) {
      return false;
    }
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
      ++at;
    }
    if (digits() == 0) {
      return false;
    }
  }
  return at == text.size();
}

}  // namespace pome::text
