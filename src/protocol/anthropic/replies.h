#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace pome::protocol::anthropic {

struct Usage {
  int64_t input_tokens = 0;  // without those that were read from the cache
  int64_t cache_read_tokens = 0;
  int64_t output_tokens = 0;
};

struct MessageHead {
  std::string id = {};
  std::string model = {};  // the served name
};

struct MessageEnd {
  std::string reason = {};  // "end_turn", "max_tokens", …
  std::optional<std::string> sequence = {};
};

json::object text_block(std::string_view text);
json::object thinking_block(std::string_view thinking, std::string_view signature);
json::object tool_use_block(std::string_view id, std::string_view name, json::value input);

json::object message_body(const MessageHead& head, json::array content, const MessageEnd& end,
                          const Usage& usage);
json::object count_body(int64_t input_tokens);

// The events of a stream, in their order.
std::string message_start(const MessageHead& head, const Usage& usage);
std::string ping();
// `block` as it is before its first delta.
std::string block_start(int32_t index, json::object block);
std::string block_delta(int32_t index, std::string_view type, std::string_view key,
                        std::string_view piece);
std::string block_stop(int32_t index);
std::string message_delta(const MessageEnd& end, const Usage& usage);
std::string message_stop();
std::string error_event(const Error& error, std::string_view request_id);

// {"type":"error","error":{"type","message"},"request_id"}
json::object error_body(const Error& error, std::string_view request_id);

}  // namespace pome::protocol::anthropic
