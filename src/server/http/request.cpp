#include "server/http/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace pome::server {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) {
      return value;
    }
  }
  return std::nullopt;
}

std::optional<Target> parse_target(std::string_view target) {
  if (target.empty() || target[0] != '/') {
    return std::nullopt;
  }
  Target out;
  const size_t question = target.find('?');
  const std::string_view path = target.substr(0, question);
  if (question != std::string_view::npos) {
    out.query = target.substr(question + 1);
  }
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      out.path += path[i];
      continue;
    }
    const int high = i + 1 < path.size() ? hex_digit(path[i + 1]) : -1;
    const int low = i + 2 < path.size() ? hex_digit(path[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    out.path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string random_id() {
  static thread_local std::mt19937_64 random{(uint64_t{std::random_device{}()} << 32) ^
                                             std::random_device{}()};
  return fmt::format("{:016x}{:016x}", random(), random());
}

std::string request_id(std::optional<std::string_view> from_client) {
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || c == '.' || c == '_' ||
           c == ':' || c == '-';
  };
  if (from_client && !from_client->empty() && from_client->size() <= 128 &&
      std::all_of(from_client->begin(), from_client->end(), allowed)) {
    return std::string(*from_client);
  }
  return random_id();
}

}  // namespace pome::server
