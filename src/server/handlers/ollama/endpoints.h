#pragma once

#include <span>

#include "server/handlers/context.h"

namespace pome::server {

asio::awaitable<void> handle_ollama_chat(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_ollama_generate(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_ollama_tags(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_ollama_running(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_ollama_show(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_ollama_version(ServerContext& context, Exchange& exchange);

std::span<const Endpoint> ollama_endpoints();

// As check_model_name(); a name may end in ":latest".
Status check_ollama_name(const ServerContext& context, const std::string& name);

}  // namespace pome::server
