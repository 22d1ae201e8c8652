#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace pome {

namespace {

// Boost.JSON reads 1e999 as infinity, which no JSON text can write. The parser has bounded the
// depth.
bool all_finite(const json::value& value) {
  if (const double* number = value.if_double())
    return std::isfinite(*number);
  if (const json::array* array = value.if_array()) {
    return std::all_of(array->begin(), array->end(), all_finite);
  }
  if (const json::object* object = value.if_object()) {
    return std::all_of(object->begin(), object->end(),
                       [](const auto& member) { return all_finite(member.value()); });
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
    return invalid(fmt::format("invalid JSON at byte {}: {}", read, code.message()));
  }
  if (!parser.done()) {
    parser.finish(code);  // a bare number ends only with the text
    if (code) {
      return invalid(fmt::format("invalid JSON at byte {}: the document is incomplete", read));
    }
  }
  if (text.find_first_not_of(" \t\r\n", read) != std::string_view::npos) {
    return invalid(fmt::format("invalid JSON at byte {}: text after the document", read));
  }
  json::value value = parser.release();
  if (!all_finite(value))
    return invalid("invalid JSON: a number is past the range of a double");
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
