#include "server/handlers/anthropic/endpoints.h"

#include "protocol/anthropic/replies.h"

namespace pome::server {

std::span<const Endpoint> anthropic_endpoints() {
  static constexpr Endpoint kEndpoints[] = {
      {"POST", "/v1/messages", handle_messages, Match::exact, Access::key,
       protocol::anthropic::error_body},
      {"POST", "/v1/messages/count_tokens", handle_count_tokens, Match::exact, Access::key,
       protocol::anthropic::error_body},
  };
  return kEndpoints;
}

}  // namespace pome::server
