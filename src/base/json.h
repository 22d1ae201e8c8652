#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pome {

// Boost.JSON under one name, so that it can be replaced here.
namespace json = boost::json;

struct JsonLimits {
  size_t depth_max = 64;
  size_t bytes_max = size_t{64} << 20;
};

// Parses one whole document. Refuses trailing text, bad UTF-8, NaN and what is past the limits; the
// error's field says where: `messages[0].content`. Of a key that stands twice the last counts.
Result<json::value> parse_json(std::string_view text, JsonLimits limits = {});

std::string to_string(const json::value& value);

// The type's name as a JSON author knows it: "object", "number", …
std::string_view json_type_name(const json::value& value);

// Lookups that never throw: nullptr / nullopt where the key is absent or has another type. An
// integer-valued double (2.0) counts as an integer.
const json::value* find(const json::object& object, std::string_view key);
std::optional<std::string> find_string(const json::object& object, std::string_view key);
std::optional<int64_t> find_int(const json::object& object, std::string_view key);
std::optional<double> find_double(const json::object& object, std::string_view key);
std::optional<bool> find_bool(const json::object& object, std::string_view key);
const json::object* find_object(const json::object& object, std::string_view key);
const json::array* find_array(const json::object& object, std::string_view key);

// `value` as an integer when it is one exactly.
std::optional<int64_t> as_int(const json::value& value);
std::optional<double> as_double(const json::value& value);

}  // namespace pome
