#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pome::server {

// One HTTP request, whole.
struct Request {
  std::string method;  // "GET"; upper case as it came
  std::string path;    // percent-decoded, without the query
  std::string query;   // as it came, without '?'
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::string id;  // the client's X-Request-Id where it is well-formed, else drawn

  // The first header of the name, whatever its case.
  std::optional<std::string_view> header(std::string_view name) const;
};

// Splits a target into path and query and decodes the path; nullopt when it is not origin-form
// ("/…") or a percent code is broken.
struct Target {
  std::string path;
  std::string query;
};
std::optional<Target> parse_target(std::string_view target);

// The client's id when it is 1 to 128 characters of [A-Za-z0-9._:-], else a fresh one.
std::string request_id(std::optional<std::string_view> from_client);

// 128 bits as 32 hex digits.
std::string random_id();

bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace pome::server
