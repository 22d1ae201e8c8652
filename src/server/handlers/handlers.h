#pragma once

#include "server/handlers/context.h"

// One function an endpoint; routes.cpp says which path leads to which.
namespace pome::server {

asio::awaitable<void> handle_chat(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_completion(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_generate(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_tokenize(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_detokenize(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_parse_calls(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_separate_reasoning(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_abort(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_flush_cache(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_start_profile(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_stop_profile(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_models(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_model(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_health(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_health_generate(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_server_info(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_model_info(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_metrics(ServerContext& context, Exchange& exchange);
asio::awaitable<void> handle_root(ServerContext& context, Exchange& exchange);

// What stands for them while there is no model.
asio::awaitable<void> handle_health_of_start(const Front& front, Exchange& exchange);
asio::awaitable<void> refuse_for_start(const Front& front, Exchange& exchange);

}  // namespace pome::server
