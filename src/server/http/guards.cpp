#include "server/http/guards.h"

#include <algorithm>

namespace pome::server {
namespace {

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

// "https://app.example:8080" → "app.example:8080"; empty for "null" and everything without a
// scheme.
std::string_view origin_authority(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

bool names(const std::vector<std::string>& allowed_hosts, std::string_view name) {
  return std::any_of(allowed_hosts.begin(), allowed_hosts.end(), [&](const std::string& allowed) {
    if (allowed[0] == '.') {
      return name.size() > allowed.size() &&
             equal_ignoring_case(name.substr(name.size() - allowed.size()), allowed);
    }
    return allowed == "*" || equal_ignoring_case(name, host_name(allowed));
  });
}

}  // namespace

std::string host_name(std::string_view host_and_port) {
  std::string_view name = host_and_port;
  const size_t close = name.find(']');
  if (!name.empty() && name[0] == '[') {
    const bool ends = close + 1 == name.size() || (close < name.size() && name[close + 1] == ':');
    name = ends ? name.substr(1, close - 1) : std::string_view();
  } else if (std::count(name.begin(), name.end(), ':') == 1) {
    name = name.substr(0, name.find(':'));
  }
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

bool is_loopback_name(std::string_view host) {
  constexpr std::string_view kSuffix = ".localhost";
  if (host == "localhost" || host == "::1" ||
      (host.size() > kSuffix.size() && host.substr(host.size() - kSuffix.size()) == kSuffix)) {
    return true;
  }
  // A dotted IPv4 literal of 127/8, and not a name that merely begins with "127.".
  return host.substr(0, 4) == "127." && std::count(host.begin(), host.end(), '.') == 3 &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

Status check_host_and_origin(const Request& request, const GuardOptions& options) {
  // Whoever stands between may have judged another of them.
  if (std::count_if(request.headers.begin(), request.headers.end(), [](const auto& header) {
        return equal_ignoring_case(header.first, "Host");
      }) > 1) {
    return invalid("expected one Host header", "Host");
  }
  const auto given = request.header("Host");
  const std::string_view host = given.value_or("");
  const std::string bound = host_name(options.host);
  const std::string name = host_name(host);
  if (given && name.empty()) {
    return invalid("the Host header names no host", "Host");
  }
  const bool checked = is_loopback_name(bound) || !options.allowed_hosts.empty();
  if (checked && !host.empty() && !is_loopback_name(name) && name != bound &&
      !names(options.allowed_hosts, name)) {
    return Error{ErrorCode::forbidden,
                 "the Host header names neither this machine nor an allowed host "
                 "(--allowed-hosts)",
                 "Host"};
  }
  const auto origin = request.header("Origin");
  if (!origin) {
    return {};
  }
  for (const std::string& allowed : options.allowed_origins) {
    if (allowed == "*" || allowed == *origin) {
      return {};
    }
  }
  const std::string_view authority = origin_authority(*origin);
  if (is_loopback_name(host_name(authority)) ||
      (!authority.empty() && equal_ignoring_case(authority, host))) {
    return {};
  }
  return Error{
      ErrorCode::forbidden,
      "pages of this origin may not use the server; --allowed-origins names those that may",
      "Origin"};
}

std::string allow_origin(const Request& request) {
  return std::string(request.header("Origin").value_or(""));
}

Status check_api_key(const Request& request, Access access, const GuardOptions& options) {
  const bool by_admin = access == Access::admin && !options.admin_api_key.empty();
  if (access == Access::open || (!by_admin && options.api_key.empty())) {
    return {};
  }
  const auto opens = [&](std::string_view key) {
    const bool admin =
        !options.admin_api_key.empty() && equal_in_constant_time(key, options.admin_api_key);
    const bool user = !by_admin && equal_in_constant_time(key, options.api_key);
    return admin || user;
  };
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view value = request.header("Authorization").value_or("");
  const bool has_scheme = value.size() > kScheme.size() &&
                          equal_ignoring_case(value.substr(0, kScheme.size()), kScheme);
  if (has_scheme && opens(value.substr(kScheme.size()))) {
    return {};
  }
  if (const auto key = request.header("x-api-key"); key && opens(*key)) {
    return {};
  }
  return Error{ErrorCode::unauthorized,
               by_admin ? "expected the header \"Authorization: Bearer KEY\" with the server's "
                          "--admin-api-key"
                        : "expected the header \"Authorization: Bearer KEY\" with the server's "
                          "--api-key",
               "Authorization"};
}

}  // namespace pome::server
