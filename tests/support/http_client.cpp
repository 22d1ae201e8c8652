#include "support/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace pome::test {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) ==
                  std::tolower(static_cast<unsigned char>(y));
         });
}

// Puts the chunks at the front of `bytes` together; `used` is what they took.
std::string join_chunks(std::string_view bytes, size_t& used) {
  std::string out;
  const size_t all = bytes.size();
  for (;;) {
    const size_t line = bytes.find("\r\n");
    if (line == std::string_view::npos) {
      break;
    }
    const size_t size = std::strtoul(std::string(bytes.substr(0, line)).c_str(), nullptr, 16);
    bytes.remove_prefix(line + 2);
    out += bytes.substr(0, size);
    bytes.remove_prefix(std::min(bytes.size(), size + 2));
    if (size == 0) {
      break;
    }
  }
  used = all - bytes.size();
  return out;
}

}  // namespace

std::string HttpReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_name(key, name)) {
      return value;
    }
  }
  return {};
}

RawConnection::RawConnection(uint16_t port, const char* address) {
  const bool v6 = std::strchr(address, ':') != nullptr;
  sockaddr_storage storage{};
  socklen_t length = 0;
  if (v6) {
    auto* to = reinterpret_cast<sockaddr_in6*>(&storage);
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(port);
    inet_pton(AF_INET6, address, &to->sin6_addr);
    length = sizeof(sockaddr_in6);
  } else {
    auto* to = reinterpret_cast<sockaddr_in*>(&storage);
    to->sin_family = AF_INET;
    to->sin_port = htons(port);
    inet_pton(AF_INET, address, &to->sin_addr);
    length = sizeof(sockaddr_in);
  }
  fd_ = socket(storage.ss_family, SOCK_STREAM, 0);
  if (fd_ >= 0 && connect(fd_, reinterpret_cast<sockaddr*>(&storage), length) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

RawConnection::~RawConnection() {
  close();
}

bool RawConnection::send(std::string_view bytes) {
#ifdef MSG_NOSIGNAL
  constexpr int kFlags = MSG_NOSIGNAL;
#else
  constexpr int kFlags = 0;
#endif
  while (fd_ >= 0 && !bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), kFlags);
    if (sent <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return fd_ >= 0;
}

std::string RawConnection::receive(std::chrono::milliseconds timeout, size_t bytes_max) {
  pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
  if (fd_ < 0 || poll(&waiting, 1, static_cast<int>(timeout.count())) <= 0) {
    return {};
  }
  std::string out(bytes_max, '\0');
  const ssize_t got = recv(fd_, out.data(), out.size(), 0);
  at_end_ = got <= 0;
  out.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return out;
}

std::string RawConnection::receive_all(std::chrono::milliseconds timeout) {
  std::string out;
  for (;;) {
    const std::string piece = receive(timeout);
    if (piece.empty()) {
      return out;
    }
    out += piece;
  }
}

std::string RawConnection::receive_until(std::string_view text, std::chrono::milliseconds timeout) {
  std::string out;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (out.find(text) == std::string::npos && std::chrono::steady_clock::now() < deadline &&
         !at_end_) {
    out += receive(std::chrono::milliseconds(50), 4096);
  }
  return out;
}

void RawConnection::shut_down_sending() {
  shutdown(fd_, SHUT_WR);
}

void RawConnection::close() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
  fd_ = -1;
}

void RawConnection::set_receive_buffer(int bytes) {
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

HttpReply parse_reply(std::string_view bytes, size_t* used) {
  HttpReply reply;
  const size_t head_end = bytes.find("\r\n\r\n");
  if (bytes.substr(0, 7) != "HTTP/1." || head_end == std::string_view::npos) {
    return reply;
  }
  std::string_view head = bytes.substr(0, head_end);
  reply.status = std::atoi(std::string(head.substr(9, 3)).c_str());
  for (size_t at = head.find("\r\n"); at != std::string_view::npos;) {
    const size_t next = head.find("\r\n", at + 2);
    const std::string_view line = head.substr(
        at + 2, next == std::string_view::npos ? std::string_view::npos : next - at - 2);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      const size_t value = line.find_first_not_of(' ', colon + 1);
      reply.headers.emplace_back(line.substr(0, colon), value == std::string_view::npos
                                                            ? std::string_view()
                                                            : line.substr(value));
    }
    at = next;
  }
  const std::string_view rest = bytes.substr(head_end + 4);
  size_t body = rest.size();
  if (reply.header("Transfer-Encoding") == "chunked") {
    reply.body = join_chunks(rest, body);
  } else {
    const std::string length = reply.header("Content-Length");
    body = length.empty() ? rest.size() : std::min(rest.size(), size_t(std::stoul(length)));
    reply.body = rest.substr(0, body);
  }
  if (used != nullptr) {
    *used = head_end + 4 + body;
  }
  return reply;
}

std::string request_bytes(std::string_view method, std::string_view path, std::string_view body,
                          const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string out = fmt::format("{} {} HTTP/1.1\r\n", method, path);
  const auto has = [&](std::string_view name) {
    return std::any_of(headers.begin(), headers.end(),
                       [&](const auto& header) { return same_name(header.first, name); });
  };
  if (!has("Host")) {
    out += "Host: localhost\r\n";
  }
  for (const auto& [name, value] : headers) {
    out += fmt::format("{}: {}\r\n", name, value);
  }
  if (!has("Content-Length") && !has("Transfer-Encoding") && (!body.empty() || method == "POST")) {
    out += fmt::format("Content-Length: {}\r\n", body.size());
  }
  if (!has("Connection")) {
    out += "Connection: close\r\n";
  }
  return out + "\r\n" + std::string(body);
}

HttpReply request(uint16_t port, std::string_view method, std::string_view path,
                  std::string_view body,
                  const std::vector<std::pair<std::string, std::string>>& headers) {
  RawConnection connection(port);
  connection.send(request_bytes(method, path, body, headers));
  return parse_reply(connection.receive_all(std::chrono::seconds(20)));
}

}  // namespace pome::test
