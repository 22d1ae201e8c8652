#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/api.h"
#include "sampling/params.h"
#include "server/generation/generation.h"
#include "server/generation/work_pool.h"
#include "server/http/exchange.h"
#include "server/journal/request_record.h"
#include "server/profiling/profiler.h"
#include "telemetry/server_metrics.h"

namespace pome::server {

struct ServingOptions {
  std::string served_model_name =
      {};                          // what every reply says, whatever the request called the model
  bool strict_model_name = false;  // another name is 404 instead
  sampling::Params sampling_defaults = {};
  bool incremental_streaming_output = false;  // POST /generate streams pieces instead of the whole
  std::chrono::milliseconds watchdog_timeout{300'000};
  std::chrono::milliseconds health_generate_timeout{20'000};
  RequestLogOptions request_log = {};
  telemetry::MetricsOptions metrics = {};  // the served name stands in for an empty model_name
  bool metrics_enabled = true;             // false: GET /metrics is 404
  bool report_cached_tokens = true;        // in OpenAI usage
  telemetry::Trace* trace = nullptr;       // outlives the server
  Profiler* profiler = nullptr;            // too; null: POST /start_profile is 404
  json::object server_args = {};           // for GET /get_server_info
  int64_t created_s = 0;                   // Unix time of the start
};

// What the handlers of a served model share. Network thread only, unless a member says otherwise.
struct ServerContext {
  const ServingOptions& options;
  engine::Engine& engine;
  const ServedText& text;
  Dispatcher& dispatcher;
  WorkPool& prompts;  // templates and tokenizing
  WorkPool& deltas;   // detokenizing
  telemetry::ServerMetrics& metrics;
  Journal& journal;
  const std::atomic<bool>& draining;  // any thread
};

// A server from its first moment on.
struct Front {
  std::atomic<bool> draining{false};  // any thread
  ServerContext* model = nullptr;     // network thread only; null until there is one to serve
};

using HandlerFunction = asio::awaitable<void> (*)(ServerContext&, Exchange&);
enum class Match { exact, prefix };

struct Endpoint {
  const char* method;
  const char* path;
  HandlerFunction handler;
  Match match = Match::exact;
  Access access = Access::key;
  ErrorBody error_body = openai_error;
};

// OpenAI's and SGLang's endpoints, and the server's own.
std::span<const Endpoint> endpoints();

// `front` outlives the routes. Until there is a model they say so.
std::vector<Route> routes(const Front& front, std::span<const Endpoint> dialect);

}  // namespace pome::server
