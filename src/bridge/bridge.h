#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bridge/pome_bridge.h"

namespace pome::bridge {

// Owns what the bridge handed out, for as long as it is looked at.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { pome_buffer_free(&raw_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  PomeBuffer* out() { return &raw_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(raw_.data), raw_.bytes}; }

 private:
  PomeBuffer raw_{};
};

class Tokens {
 public:
  Tokens() = default;
  ~Tokens() { pome_tokens_free(&raw_); }
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;

  PomeTokens* out() { return &raw_; }
  std::span<const int32_t> ids() const { return {raw_.data, raw_.count}; }

 private:
  PomeTokens raw_{};
};

inline PomeText text(std::string_view view) {
  return {reinterpret_cast<const uint8_t*>(view.data()), view.size()};
}

// The bridge's answer as a Status: a refusal is invalid_argument, a caught panic internal. `where`
// opens the message.
Status status(int32_t code, const Buffer& error, std::string_view where);

}  // namespace pome::bridge
