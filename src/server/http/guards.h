#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http/exchange.h"
#include "server/http/request.h"

namespace pome::server {

struct GuardOptions {
  std::string host;                          // what the listener binds
  std::string api_key;                       // empty: no key is asked for
  std::string admin_api_key = {};            // empty: as api_key
  std::vector<std::string> allowed_origins;  // "https://app.example"; "*" is any
  // "app.example", ".example" with every name under it, "*" is any. Empty: this machine's names on
  // a loopback bind, any on others.
  std::vector<std::string> allowed_hosts = {};
};

// The name without its port, in lower case, brackets kept off IPv6: "[::1]:80" is "::1".
std::string host_name(std::string_view host_and_port);
bool is_loopback_name(std::string_view host);

// A page on another site must not reach a server on this machine through the user's browser: on a
// loopback bind, and on every one with --allowed-hosts, the Host must name this machine or an
// allowed host (DNS rebinding), and on every bind an Origin, if there is one, must be a loopback
// page, a page of the same host, or one that --allowed-origins names. `forbidden` otherwise; a
// second Host, or one that names nothing, is `invalid_argument`.
Status check_host_and_origin(const Request& request, const GuardOptions& options);

// The Access-Control-Allow-Origin value for a request that passed; empty when it has no Origin.
std::string allow_origin(const Request& request);

// "Authorization: Bearer KEY" or Anthropic's "x-api-key: KEY" with a key that opens the route,
// compared in constant time; `unauthorized` otherwise. The admin's key opens every route.
Status check_api_key(const Request& request, Access access, const GuardOptions& options);

}  // namespace pome::server
