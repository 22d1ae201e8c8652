#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http/session.h"

namespace pome::server {

// Accepts connections and owns their sessions. Network thread only, but for listen().
class Listener {
 public:
  Listener(asio::io_context& io, const HttpContext& context) : io_(io), context_(context) {}

  // Binds `host` and starts to accept when the io context runs. A loopback host binds 127.0.0.1 and
  // ::1 on the same port, 0.0.0.0 binds :: too; a machine without IPv6 does without. Port 0 finds a
  // free one. The port in use comes back; an address in use is an error that names the cure.
  Result<uint16_t> listen(const std::string& host, uint16_t port);

  void stop_accepting();
  void close_idle();  // connections between two requests
  void close_all();
  size_t session_count() const { return sessions_.size(); }

 private:
  Status bind(const asio::ip::tcp::endpoint& endpoint);
  asio::awaitable<void> accept(asio::ip::tcp::acceptor& acceptor);
  asio::awaitable<void> run_session(std::shared_ptr<Session> session);

  asio::io_context& io_;
  const HttpContext& context_;
  std::vector<std::unique_ptr<asio::ip::tcp::acceptor>> acceptors_;
  std::set<std::shared_ptr<Session>> sessions_;
};

}  // namespace pome::server
