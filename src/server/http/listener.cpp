#include "server/http/listener.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"

namespace pome::server {
namespace {

using tcp = asio::ip::tcp;
using ErrorCodeOut = boost::system::error_code;

// The addresses that one --host means.
Result<std::vector<asio::ip::address>> addresses_of(asio::io_context& io, const std::string& host) {
  const std::string name = host_name(host);
  if (name == "localhost" || name == "127.0.0.1" || name == "::1") {
    return std::vector<asio::ip::address>{asio::ip::make_address("127.0.0.1"),
                                          asio::ip::make_address("::1")};
  }
  if (name == "0.0.0.0") {
    return std::vector<asio::ip::address>{asio::ip::make_address("0.0.0.0"),
                                          asio::ip::make_address("::")};
  }
  ErrorCodeOut code;
  const auto literal = asio::ip::make_address(name, code);
  if (!code) {
    return std::vector<asio::ip::address>{literal};
  }
  tcp::resolver resolver(io);
  std::vector<asio::ip::address> out;
  for (const auto& entry : resolver.resolve(name, "0", tcp::resolver::passive, code)) {
    out.push_back(entry.endpoint().address());
  }
  if (code || out.empty()) {
    return invalid(fmt::format("--host {}: {}; expected an address of this machine, e.g. 127.0.0.1",
                               host, code ? code.message() : "no address"),
                   "host");
  }
  return out;
}

bool lacks_address_family(const ErrorCodeOut& code) {
  return code == asio::error::address_family_not_supported ||
         code == boost::system::errc::address_not_available ||
         code == boost::system::errc::protocol_not_supported;
}

}  // namespace

Result<uint16_t> Listener::listen(const std::string& host, uint16_t port) {
  const auto addresses = addresses_of(io_, host);
  if (!addresses) {
    return addresses.error();
  }
  // A free port of the first address may be taken on the second; then another one is drawn.
  constexpr int kDraws = 16;
  for (int draw = 0;; ++draw) {
    acceptors_.clear();
    uint16_t bound = port;
    Status status;
    for (const auto& address : *addresses) {
      status = bind({address, bound});
      if (!status) {
        break;
      }
      if (!acceptors_.empty()) {
        bound = acceptors_.front()->local_endpoint().port();
      }
    }
    if (status && !acceptors_.empty()) {
      for (const auto& acceptor : acceptors_) {
        asio::co_spawn(io_, accept(*acceptor), asio::detached);
      }
      return bound;
    }
    if (status) {
      return Error{
          ErrorCode::unavailable, fmt::format("--host {}: no such address here", host), {}};
    }
    if (port != 0 || draw + 1 == kDraws) {
      acceptors_.clear();
      return status.error();
    }
  }
}

Status Listener::bind(const tcp::endpoint& endpoint) {
  ErrorCodeOut code;
  auto acceptor = std::make_unique<tcp::acceptor>(io_);
  acceptor->open(endpoint.protocol(), code);
  if (!code) {
    acceptor->set_option(asio::socket_base::reuse_address(true), code);
  }
  if (!code && endpoint.protocol() == tcp::v6()) {
    acceptor->set_option(asio::ip::v6_only(true), code);
  }
  if (!code) {
    acceptor->bind(endpoint, code);
  }
  if (!code) {
    acceptor->listen(asio::socket_base::max_listen_connections, code);
  }
  if (!code) {
    acceptors_.push_back(std::move(acceptor));
    return {};
  }
  if (endpoint.protocol() == tcp::v6() && lacks_address_family(code)) {
    return {};
  }
  const std::string where = fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
  if (code == asio::error::address_in_use) {
    return Error{
        ErrorCode::unavailable,
        fmt::format("port {} is in use ({}): choose another with --port, or --port 0 for a "
                    "free one",
                    endpoint.port(), where),
        "port"};
  }
  if (code == asio::error::access_denied) {
    return Error{
        ErrorCode::unavailable,
        fmt::format("no permission to listen on {}: choose a --port of 1024 or more", where),
        "port"};
  }
  return Error{ErrorCode::unavailable,
               fmt::format("cannot listen on {}: {}", where, code.message()), "host"};
}

asio::awaitable<void> Listener::accept(tcp::acceptor& acceptor) {
  while (acceptor.is_open()) {
    ErrorCodeOut code;
    tcp::socket socket =
        co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, code));
    if (code == asio::error::operation_aborted || code == asio::error::bad_descriptor) {
      co_return;
    }
    if (code) {
      // Out of file descriptors, mostly: it passes when connections close.
      log::warning("accept: {}", code.message());
      asio::steady_timer pause(io_, std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, code));
      continue;
    }
    if (sessions_.size() >= static_cast<size_t>(context_.limits.connections_max)) {
      log::warning("connection refused: {} are open", sessions_.size());
      continue;
    }
    auto session = make_session(std::move(socket), context_);
    sessions_.insert(session);
    asio::co_spawn(io_, run_session(session), asio::detached);
  }
}

asio::awaitable<void> Listener::run_session(std::shared_ptr<Session> session) {
  try {
    co_await session->run();
  } catch (const std::exception& fault) {
    log::error("session: {}", fault.what());
    session->close();
  }
  sessions_.erase(session);
}

void Listener::stop_accepting() {
  for (const auto& acceptor : acceptors_) {
    ErrorCodeOut ignored;
    acceptor->close(ignored);
  }
}

void Listener::close_idle() {
  for (const auto& session : std::set(sessions_)) {
    if (session->idle()) {
      session->close();
    }
  }
}

void Listener::close_all() {
  for (const auto& session : std::set(sessions_)) {
    session->close();
  }
}

}  // namespace pome::server
