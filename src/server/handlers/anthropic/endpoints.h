#pragma once

#include <span>

#include "server/handlers/context.h"

namespace pome::server {

asio::awaitable<void> handle_messages(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_count_tokens(ServerContext& context, Exchange& exchange);

std::span<const Endpoint> anthropic_endpoints();

}  // namespace pome::server
