#include "server/handlers/handlers.h"

namespace pome::server {
namespace {

constexpr Endpoint kEndpoints[] = {
    {"POST", "/v1/chat/completions", handle_chat},
    {"POST", "/v1/completions", handle_completion},
    {"GET", "/v1/models", handle_models},
    {"GET", "/v1/models/", handle_model, Match::prefix},
    {"POST", "/generate", handle_generate},
    {"PUT", "/generate", handle_generate},
    {"POST", "/v1/tokenize", handle_tokenize},
    {"POST", "/tokenize", handle_tokenize},
    {"POST", "/v1/detokenize", handle_detokenize},
    {"POST", "/detokenize", handle_detokenize},
    {"POST", "/parse_function_call", handle_parse_calls},
    {"POST", "/separate_reasoning", handle_separate_reasoning},
    {"POST", "/abort_request", handle_abort},
    {"POST", "/flush_cache", handle_flush_cache, Match::exact, Access::admin},
    {"GET", "/flush_cache", handle_flush_cache, Match::exact, Access::admin},
    {"POST", "/start_profile", handle_start_profile, Match::exact, Access::admin},
    {"POST", "/stop_profile", handle_stop_profile, Match::exact, Access::admin},
    {"GET", "/get_server_info", handle_server_info},
    {"GET", "/server_info", handle_server_info},
    {"GET", "/get_model_info", handle_model_info},
    {"GET", "/model_info", handle_model_info},
    // What supervisors and scrapers ask carries no prompts and needs no key.
    {"GET", "/health", handle_health, Match::exact, Access::open},
    {"GET", "/health_generate", handle_health_generate, Match::exact, Access::open},
    {"GET", "/metrics", handle_metrics, Match::exact, Access::open},
    {"GET", "/", handle_root, Match::exact, Access::open},
};

}  // namespace

std::span<const Endpoint> endpoints() {
  return kEndpoints;
}

std::vector<Route> routes(const Front& front, std::span<const Endpoint> dialect) {
  std::vector<Route> out;
  for (const Endpoint& endpoint : dialect) {
    out.push_back({.method = endpoint.method,
                   .path = endpoint.path,
                   .prefix = endpoint.match == Match::prefix,
                   .access = endpoint.access,
                   .error_body = endpoint.error_body,
                   .handler = [&front, handler = endpoint.handler](Exchange& exchange) {
                     if (front.model) {
                       return handler(*front.model, exchange);
                     }
                     return handler == handle_health ? handle_health_of_start(front, exchange)
                                                     : refuse_for_start(front, exchange);
                   }});
  }
  return out;
}

}  // namespace pome::server
