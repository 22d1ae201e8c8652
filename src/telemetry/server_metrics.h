#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace pome::telemetry {

// A moment's figures of the engine, as /metrics reports them.
struct EngineFigures {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t kv_tokens_used = 0;
  int64_t kv_tokens_max = 0;
  int64_t prompt_tokens_total = 0;
  int64_t cached_tokens_total = 0;
  int64_t generated_tokens_total = 0;
  int64_t cancelled_total = 0;
  double generated_tokens_per_s = 0.0;
};

struct RequestFigures {
  double seconds_to_first_token = 0.0;
  double seconds = 0.0;
  int64_t completion_tokens = 0;
};

// What GET /metrics says. Any thread.
class ServerMetrics {
 public:
  explicit ServerMetrics(const std::string& model_name);
  ~ServerMetrics();

  void observe_request(const RequestFigures& request);
  void count_reply(int status);
  // Prometheus' text format, version 0.0.4.
  std::string text(const EngineFigures& engine);

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace pome::telemetry
