#include "protocol/anthropic/replies.h"

#include "base/utf8.h"

namespace pome::protocol::anthropic {
namespace {

std::string event(std::string_view name, const json::object& body) {
  std::string out = "event: ";
  out += name;
  out += "\ndata: ";
  out += to_string(body);
  out += "\n\n";
  return out;
}

json::object usage_body(const Usage& usage) {
  return {{"input_tokens", usage.input_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cache_read_tokens},
          {"output_tokens", usage.output_tokens}};
}

std::string_view error_type(ErrorCode code) {
  switch (code) {
    case ErrorCode::unauthorized:
      return "authentication_error";
    case ErrorCode::forbidden:
      return "permission_error";
    case ErrorCode::not_found:
      return "not_found_error";
    case ErrorCode::timeout:
      return "timeout_error";
    case ErrorCode::too_large:
      return "request_too_large";
    case ErrorCode::queue_full:
      return "rate_limit_error";
    case ErrorCode::unavailable:
      return "overloaded_error";
    case ErrorCode::cancelled:
    case ErrorCode::internal:
      return "api_error";
    case ErrorCode::invalid_argument:
    case ErrorCode::method_not_allowed:
    case ErrorCode::unsupported_media:
      break;
  }
  return "invalid_request_error";
}

json::object message(const MessageHead& head, json::array content, json::value reason,
                     json::value sequence, const Usage& usage) {
  return {{"id", head.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", head.model},
          {"content", std::move(content)},
          {"stop_reason", std::move(reason)},
          {"stop_sequence", std::move(sequence)},
          {"usage", usage_body(usage)}};
}

json::value sequence_of(const MessageEnd& end) {
  return end.sequence ? json::value(valid_utf8(*end.sequence)) : json::value(nullptr);
}

}  // namespace

json::object text_block(std::string_view text) {
  return {{"type", "text"}, {"text", text}};
}

json::object thinking_block(std::string_view thinking, std::string_view signature) {
  return {{"type", "thinking"}, {"thinking", thinking}, {"signature", signature}};
}

json::object tool_use_block(std::string_view id, std::string_view name, json::value input) {
  return {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", std::move(input)}};
}

json::object message_body(const MessageHead& head, json::array content, const MessageEnd& end,
                          const Usage& usage) {
  return message(head, std::move(content), json::value(end.reason), sequence_of(end), usage);
}

json::object count_body(int64_t input_tokens) {
  return {{"input_tokens", input_tokens}};
}

std::string message_start(const MessageHead& head, const Usage& usage) {
  return event("message_start", {{"type", "message_start"},
                                 {"message", message(head, {}, nullptr, nullptr, usage)}});
}

std::string ping() {
  return event("ping", {{"type", "ping"}});
}

std::string block_start(int32_t index, json::object block) {
  return event(
      "content_block_start",
      {{"type", "content_block_start"}, {"index", index}, {"content_block", std::move(block)}});
}

std::string block_delta(int32_t index, std::string_view type, std::string_view key,
                        std::string_view piece) {
  return event("content_block_delta", {{"type", "content_block_delta"},
                                       {"index", index},
                                       {"delta", json::object{{"type", type}, {key, piece}}}});
}

std::string block_stop(int32_t index) {
  return event("content_block_stop", {{"type", "content_block_stop"}, {"index", index}});
}

std::string message_delta(const MessageEnd& end, const Usage& usage) {
  return event(
      "message_delta",
      {{"type", "message_delta"},
       {"delta", json::object{{"stop_reason", end.reason}, {"stop_sequence", sequence_of(end)}}},
       {"usage", usage_body(usage)}});
}

std::string message_stop() {
  return event("message_stop", {{"type", "message_stop"}});
}

std::string error_event(const Error& error, std::string_view request_id) {
  return event("error", error_body(error, request_id));
}

json::object error_body(const Error& error, std::string_view request_id) {
  return {{"type", "error"},
          {"error", json::object{{"type", error_type(error.code)}, {"message", error.message}}},
          {"request_id", request_id}};
}

}  // namespace pome::protocol::anthropic
