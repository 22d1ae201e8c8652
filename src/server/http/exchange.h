#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "server/http/request.h"

namespace pome::server {

namespace asio = boost::asio;

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Reply {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  Headers headers = {};
};

Reply json_reply(int status, const json::value& body);

// How a dialect words an error of the request of that id.
using ErrorBody = json::object (*)(const Error& error, std::string_view request_id);
json::object openai_error(const Error& error, std::string_view request_id);

// queue_full and unavailable carry Retry-After.
Reply error_reply(const Error& error, int retry_after_s, const json::object& body);

inline constexpr const char* kEventStream = "text/event-stream; charset=utf-8";

// One request and the answer to it. A handler either calls reply() once, or begin_stream(), send()
// any number of times and end_stream(). Network thread only.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  virtual asio::any_io_executor executor() const = 0;

  virtual asio::awaitable<void> reply(Reply reply) = 0;
  // What to reply in case of an error, as the path's dialect words it.
  virtual Reply refusal(const Error& error, int retry_after_s = 1) const = 0;

  // send() returns when the bytes have left for the socket's buffer, so a slow
  // client holds its own handler back and nobody else; false when the client is gone or took longer
  // than --client-timeout.
  virtual asio::awaitable<bool> begin_stream(const char* content_type) = 0;
  virtual asio::awaitable<bool> send(std::string bytes) = 0;
  virtual asio::awaitable<void> end_stream() = 0;
  virtual bool stream_begun() const = 0;

  // Called once, as soon as the client is seen to be gone; at once if it already is.
  virtual void on_client_gone(std::function<void()> callback) = 0;
  virtual bool client_gone() const = 0;
};

using Handler = std::function<asio::awaitable<void>(Exchange&)>;

// Whose requests a route takes: anybody's, those with --api-key, or those with --admin-api-key
// (with --api-key where no other is set).
enum class Access { open, key, admin };

// What the session does with a request head, before the body is read.
struct Route {
  std::string method;
  std::string path;  // ends in '/' and matches any longer path when `prefix`
  bool prefix = false;
  Access access = Access::key;
  ErrorBody error_body = openai_error;
  Handler handler;
};

// The route, or not_found / method_not_allowed (with `allow` filled). HEAD finds GET.
Result<const Route*> find_route(const std::vector<Route>& routes, const Request& request,
                                std::string& allow);

}  // namespace pome::server
