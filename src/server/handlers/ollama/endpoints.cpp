#include "server/handlers/ollama/endpoints.h"

#include "protocol/ollama/replies.h"

namespace pome::server {
namespace {

constexpr Endpoint endpoint(const char* method, const char* path, HandlerFunction handler) {
  return {method, path, handler, Match::exact, Access::key, protocol::ollama::error_body};
}

}  // namespace

std::span<const Endpoint> ollama_endpoints() {
  static constexpr Endpoint kEndpoints[] = {
      endpoint("POST", "/api/chat", handle_ollama_chat),
      endpoint("POST", "/api/generate", handle_ollama_generate),
      endpoint("GET", "/api/tags", handle_ollama_tags),
      endpoint("GET", "/api/ps", handle_ollama_running),
      endpoint("POST", "/api/show", handle_ollama_show),
      endpoint("GET", "/api/version", handle_ollama_version),
  };
  return kEndpoints;
}

}  // namespace pome::server
