#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pome::test {

struct HttpReply {
  int status = 0;  // 0: the connection ended without one
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // chunks put together

  std::string header(std::string_view name) const;  // "" when absent
};

// A TCP connection to this machine that sends bytes as they are, broken ones too.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port, const char* address = "127.0.0.1");
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool connected() const { return fd_ >= 0; }
  bool send(std::string_view bytes);  // false when the other side is gone
  // At most `bytes_max` more bytes; empty at the end of the connection or after `timeout`.
  std::string receive(std::chrono::milliseconds timeout, size_t bytes_max = 65536);
  // Everything up to the end of the connection or `timeout` without a byte.
  std::string receive_all(std::chrono::milliseconds timeout);
  // Reads until `text` has come; what was read.
  std::string receive_until(std::string_view text, std::chrono::milliseconds timeout);
  bool at_end() const { return at_end_; }
  void shut_down_sending();
  void close();  // with a reset when bytes are unread
  void set_receive_buffer(int bytes);

 private:
  int fd_ = -1;
  bool at_end_ = false;
};

// The first reply of `bytes`; how many bytes it took where `used` is given.
HttpReply parse_reply(std::string_view bytes, size_t* used = nullptr);

// One request on a connection of its own.
HttpReply request(uint16_t port, std::string_view method, std::string_view path,
                  std::string_view body = {},
                  const std::vector<std::pair<std::string, std::string>>& headers = {});

std::string request_bytes(std::string_view method, std::string_view path, std::string_view body,
                          const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace pome::test
