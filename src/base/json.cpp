#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace pome {

namespace {

// Where in a document something stands: "messages[0].content". Steps that would make it longer than
// a message should be are left out, from the inside.
class JsonPath {
 public:
  void open(char bracket) {
    steps_.push_back({.is_object = bracket == '{', .key = {}, .index = 0});
  }
  void close() {
    if (!steps_.empty())
      steps_.pop_back();
  }
  void next() {
    if (!steps_.empty()) {
      steps_.back().key.reset();
      ++steps_.back().index;
    }
  }
  // A string that ended: in an object that waits for a key it is the key.
  void string(std::string_view text) {
    if (!steps_.empty() && steps_.back().is_object && !steps_.back().key)
      steps_.back().key = text;
  }

  std::string text() const {
    constexpr size_t kBytesMax = 128;
    std::string out;
    for (const Step& step : steps_) {
      if (step.is_object && !step.key)
        break;
      const std::string more = step.is_object
                                   ? fmt::format("{}{}", out.empty() ? "" : ".", *step.key)
                                   : fmt::format("[{}]", step.index);
      if (out.size() + more.size() > kBytesMax)
        break;
      out += more;
    }
    return out;
  }

 private:
  struct Step {
    bool is_object;
    std::optional<std::string_view> key;
    size_t index;
  };
  std::vector<Step> steps_;
};

// The path at the end of `text`, the beginning of a document that is well-formed so far.
std::string path_at_end(std::string_view text) {
  JsonPath path;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') {
      path.open(c);
    } else if (c == '}' || c == ']') {
      path.close();
    } else if (c == ',') {
      path.next();
    } else if (c == '"') {
      const size_t begin = ++i;
      while (i < text.size() && text[i] != '"') {
        i += text[i] == '\\' ? 2 : 1;
      }
      if (i < text.size())
        path.string(text.substr(begin, i - begin));
    }
  }
  return path.text();
}

// What a parser calls a syntax error, as far as its first bytes say more.
std::string reason_at(std::string_view rest, std::string_view reason) {
  for (std::string_view word : {"NaN", "nan", "Infinity", "inf", "-Infinity", "-inf"}) {
    if (rest.starts_with(word))
      return fmt::format("{} is no JSON number", word);
  }
  if (!rest.empty() && static_cast<unsigned char>(rest.front()) >= 0x80)
    return "bytes that are not UTF-8, or text outside a string";
  return std::string(reason);
}

Error invalid_json(std::string_view text, size_t at, std::string_view reason) {
  at = std::min(at, text.size());
  std::string field = path_at_end(text.substr(0, at));
  return invalid(fmt::format("invalid JSON at byte {}{}: {}", at,
                             field.empty() ? "" : fmt::format(", in '{}'", field), reason),
                 field);
}

// Boost.JSON reads 1e999 as infinity, which no JSON text can write. When it finds one, `path` leads
// to it. The parser has bounded the depth.
bool all_finite(const json::value& value, JsonPath& path) {
  if (const double* number = value.if_double())
    return std::isfinite(*number);
  if (const json::array* array = value.if_array()) {
    path.open('[');
    for (const json::value& item : *array) {
      if (!all_finite(item, path))
        return false;
      path.next();
    }
    path.close();
  }
  if (const json::object* object = value.if_object()) {
    path.open('{');
    for (const auto& member : *object) {
      path.string(member.key());
      if (!all_finite(member.value(), path))
        return false;
      path.next();
    }
    path.close();
  }
  return true;
}

}  // namespace

Result<json::value> parse_json(std::string_view text, JsonLimits limits) {
  if (text.size() > limits.bytes_max) {
    return Error{ErrorCode::too_large,
                 fmt::format("[parse_json] {} bytes, at most {}", text.size(), limits.bytes_max),
                 {}};
  }
  json::parse_options options;
  options.max_depth = limits.depth_max;
  json::stream_parser parser({}, options);
  json::error_code code;
  const size_t read = parser.write_some(text.data(), text.size(), code);
  if (code) {
    const bool syntax = code == json::error::syntax;
    return invalid_json(text, read,
                        syntax ? reason_at(text.substr(std::min(read, text.size())), code.message())
                               : code.message());
  }
  if (!parser.done()) {
    parser.finish(code);  // a bare number ends only with the text
    if (code)
      return invalid_json(text, read, "the document is incomplete");
  }
  if (text.find_first_not_of(" \t\r\n", read) != std::string_view::npos)
    return invalid_json(text, read, "text after the document");
  json::value value = parser.release();
  JsonPath path;
  if (!all_finite(value, path)) {
    const std::string field = path.text();
    return invalid(fmt::format("invalid JSON{}: a number is past the range of a double",
                               field.empty() ? "" : fmt::format(" in '{}'", field)),
                   field);
  }
  return value;
}

std::string to_string(const json::value& value) {
  return json::serialize(value);
}

std::string_view json_type_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "integer";
    case json::kind::double_:
      return "number";
    case json::kind::string:
      return "string";
    case json::kind::array:
      return "array";
    case json::kind::object:
      return "object";
  }
  return "unknown";
}

const json::value* find(const json::object& object, std::string_view key) {
  return object.if_contains(key);
}

std::optional<std::string> find_string(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  if (value == nullptr || !value->is_string()) {
    return std::nullopt;
  }
  return std::string(value->get_string());
}

std::optional<int64_t> find_int(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value == nullptr ? std::nullopt : as_int(*value);
}

std::optional<double> find_double(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value == nullptr ? std::nullopt : as_double(*value);
}

std::optional<bool> find_bool(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  if (value == nullptr || !value->is_bool()) {
    return std::nullopt;
  }
  return value->get_bool();
}

const json::object* find_object(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value == nullptr ? nullptr : value->if_object();
}

const json::array* find_array(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value == nullptr ? nullptr : value->if_array();
}

std::optional<int64_t> as_int(const json::value& value) {
  if (value.is_int64()) {
    return value.get_int64();
  }
  if (value.is_uint64()) {
    const uint64_t wide = value.get_uint64();
    if (wide > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<int64_t>(wide);
  }
  if (value.is_double()) {
    const double number = value.get_double();
    // 2^63 itself is not representable; the comparison keeps the cast defined.
    if (std::trunc(number) == number && number >= -9223372036854775808.0 &&
        number < 9223372036854775808.0) {
      return static_cast<int64_t>(number);
    }
  }
  return std::nullopt;
}

std::optional<double> as_double(const json::value& value) {
  if (value.is_double()) {
    return value.get_double();
  }
  if (value.is_int64()) {
    return static_cast<double>(value.get_int64());
  }
  if (value.is_uint64()) {
    return static_cast<double>(value.get_uint64());
  }
  return std::nullopt;
}

}  // namespace pome
