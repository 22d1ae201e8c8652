#include "protocol/object_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace pome::protocol {

ObjectReader::ObjectReader(const json::object& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

std::optional<int64_t> ObjectReader::integer(std::string_view name, IntRange range) {
  const json::value* found = value(name);
  if (found == nullptr) {
    return std::nullopt;
  }
  const std::optional<int64_t> number = as_int(*found);
  if (!number && !found->is_number()) {
    wrong_type(name, "an integer", *found);
    return std::nullopt;
  }
  if (!number || *number < range.min || *number > range.max) {
    fail(name, fmt::format("expected an integer from {} to {}, got {}", range.min, range.max,
                           to_string(*found)));
    return std::nullopt;
  }
  return number;
}

std::optional<uint64_t> ObjectReader::seed(std::string_view name) {
  const json::value* found = value(name);
  if (found == nullptr) {
    return std::nullopt;
  }
  if (found->is_uint64()) {
    return found->get_uint64();
  }
  const std::optional<int64_t> number = as_int(*found);
  if (!number) {
    wrong_type(name, "a 64-bit integer", *found);
    return std::nullopt;
  }
  return static_cast<uint64_t>(*number);
}

std::optional<double> ObjectReader::number(std::string_view name, NumberRange range) {
  const json::value* found = value(name);
  if (found == nullptr) {
    return std::nullopt;
  }
  const std::optional<double> number = as_double(*found);
  if (!number) {
    wrong_type(name, "a number", *found);
    return std::nullopt;
  }
  const bool low = range.min_excluded ? *number <= range.min : *number < range.min;
  if (!std::isfinite(*number) || low || *number > range.max) {
    fail(name, fmt::format("expected a number {} {} and at most {}, got {}",
                           range.min_excluded ? "above" : "of at least", range.min, range.max,
                           to_string(*found)));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> ObjectReader::boolean(std::string_view name) {
  const json::value* found = value(name);
  if (found == nullptr) {
    return std::nullopt;
  }
  if (!found->is_bool()) {
    wrong_type(name, "true or false", *found);
    return std::nullopt;
  }
  return found->get_bool();
}

std::optional<std::string> ObjectReader::string(std::string_view name, size_t bytes_max) {
  const json::value* found = value(name);
  if (found == nullptr) {
    return std::nullopt;
  }
  if (!found->is_string()) {
    wrong_type(name, "a string", *found);
    return std::nullopt;
  }
  const json::string& text = found->get_string();
  if (text.size() > bytes_max) {
    fail(name, fmt::format("expected at most {} bytes, got {}", bytes_max, text.size()));
    return std::nullopt;
  }
  return std::string(text);
}

std::vector<std::string> ObjectReader::strings(std::string_view name, ListLimits limits) {
  const json::value* found = value(name);
  if (found == nullptr) {
    return {};
  }
  json::array one;
  const json::array* list = found->if_array();
  if (found->is_string()) {
    one.push_back(*found);
    list = &one;
  }
  if (list == nullptr) {
    wrong_type(name, "a string or a list of strings", *found);
    return {};
  }
  if (list->size() > limits.items_max) {
    fail(name, fmt::format("expected at most {} strings, got {}", limits.items_max, list->size()));
    return {};
  }
  std::vector<std::string> out;
  for (const json::value& item : *list) {
    if (!item.is_string()) {
      wrong_type(name, "a string or a list of strings", item);
      return {};
    }
    const json::string& text = item.get_string();
    if (text.empty() || text.size() > limits.item_bytes_max) {
      fail(name, fmt::format("expected strings of 1 to {} bytes, got {} bytes",
                             limits.item_bytes_max, text.size()));
      return {};
    }
    out.emplace_back(text);
  }
  return out;
}

std::vector<Token> ObjectReader::tokens(std::string_view name, size_t items_max) {
  const json::value* list = value(name);
  return list == nullptr ? std::vector<Token>() : tokens_in(name, *list, items_max);
}

std::vector<Token> ObjectReader::tokens_in(std::string_view name, const json::value& value,
                                           size_t items_max) {
  const json::array* list = value.if_array();
  if (list == nullptr) {
    wrong_type(name, "a list of token ids", value);
    return {};
  }
  if (list->size() > items_max) {
    fail(name, fmt::format("expected at most {} token ids, got {}", items_max, list->size()));
    return {};
  }
  std::vector<Token> out;
  out.reserve(list->size());
  for (const json::value& item : *list) {
    const std::optional<int64_t> id = as_int(item);
    if (!id || *id < 0 || *id > std::numeric_limits<Token>::max()) {
      fail(name, fmt::format("expected token ids, got {}",
                             item.is_number() ? to_string(item) : json_type_name(item)));
      return {};
    }
    out.push_back(static_cast<Token>(*id));
  }
  return out;
}

const json::object* ObjectReader::object(std::string_view name) {
  const json::value* found = value(name);
  if (found != nullptr && !found->is_object()) {
    wrong_type(name, "an object", *found);
    return nullptr;
  }
  return found == nullptr ? nullptr : &found->get_object();
}

const json::array* ObjectReader::array(std::string_view name) {
  const json::value* found = value(name);
  if (found != nullptr && !found->is_array()) {
    wrong_type(name, "a list", *found);
    return nullptr;
  }
  return found == nullptr ? nullptr : &found->get_array();
}

const json::value* ObjectReader::value(std::string_view name) const {
  const json::value* found = find(object_, name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void ObjectReader::fail(std::string_view name, std::string_view message) {
  const std::string full = full_name(name);
  fail(invalid(fmt::format("'{}': {}", full, message), full));
}

void ObjectReader::fail(Error error) {
  if (!error_) {
    error_ = std::move(error);
  }
}

std::string ObjectReader::full_name(std::string_view name) const {
  return fmt::format("{}{}", prefix_, name);
}

Status ObjectReader::status() const {
  return error_ ? Status(*error_) : Status();
}

void ObjectReader::wrong_type(std::string_view name, std::string_view expected,
                              const json::value& value) {
  fail(name, fmt::format("expected {}, got {}", expected, json_type_name(value)));
}

}  // namespace pome::protocol
