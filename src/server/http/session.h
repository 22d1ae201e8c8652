#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "server/http/exchange.h"
#include "server/http/guards.h"

namespace pome::server {

struct HttpLimits {
  size_t header_bytes_max = size_t{16} << 10;     // header lines, and the request line: 431 past it
  size_t body_bytes_max = size_t{32} << 20;       // 413 past it
  size_t pipelined_bytes_max = size_t{64} << 10;  // read ahead while a handler runs
  int connections_max = 512;                      // further ones are closed at once
  std::chrono::milliseconds header_timeout{
      10'000};  // from the first byte to the end of the headers
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{75'000};  // between two requests of a connection
  std::chrono::milliseconds client_timeout{
      60'000};  // a client that does not take bytes for so long
};

// What all sessions share; outlives them. Network thread only.
struct HttpContext {
  HttpLimits limits;
  GuardOptions guards;
  std::vector<Route> routes;
  bool closing = false;  // replies carry "Connection: close" from now on
  std::function<void(const Request&, int status)> on_reply = {};
};

// One connection. `run()` holds the session alive.
class Session : public std::enable_shared_from_this<Session> {
 public:
  virtual ~Session() = default;
  virtual asio::awaitable<void> run() = 0;
  virtual void close() = 0;  // at once; a running handler sees a client that is gone
  virtual bool idle() const = 0;
};

std::shared_ptr<Session> make_session(asio::ip::tcp::socket socket, const HttpContext& context);

}  // namespace pome::server
