#include "server/http/exchange.h"

#include <fmt/format.h>

#include "protocol/errors.h"
#include "protocol/field_table.h"

namespace pome::server {

Reply json_reply(int status, const json::value& body) {
  return {.status = status, .body = to_string(body)};
}

json::object openai_error(const Error& error, std::string_view) {
  return protocol::error_body(error);
}

Reply error_reply(const Error& error, int retry_after_s, const json::object& body) {
  Reply reply = json_reply(protocol::http_status(error.code), body);
  if (error.code == ErrorCode::queue_full || error.code == ErrorCode::unavailable) {
    reply.headers.emplace_back("Retry-After", std::to_string(retry_after_s));
  }
  if (error.code == ErrorCode::unauthorized) {
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return reply;
}

Result<const Route*> find_route(const std::vector<Route>& routes, const Request& request,
                                std::string& allow) {
  bool path_known = false;
  for (const Route& route : routes) {
    const bool matches = route.prefix
                             ? request.path.size() > route.path.size() &&
                                   request.path.compare(0, route.path.size(), route.path) == 0
                             : request.path == route.path;
    if (!matches) {
      continue;
    }
    path_known = true;
    if (route.method == request.method || (request.method == "HEAD" && route.method == "GET")) {
      return &route;
    }
    allow += (allow.empty() ? "" : ", ") + route.method;
    if (route.method == "GET") {
      allow += ", HEAD";
    }
  }
  if (path_known) {
    allow += ", OPTIONS";
    return Error{ErrorCode::method_not_allowed,
                 fmt::format("this path takes {}, not {}", allow,
                             protocol::printable(std::string_view(request.method).substr(0, 16))),
                 {}};
  }
  return Error{ErrorCode::not_found,
               fmt::format("there is no {}; docs/api.md lists the endpoints",
                           protocol::printable(std::string_view(request.path).substr(0, 128))),
               {}};
}

}  // namespace pome::server
