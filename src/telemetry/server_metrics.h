#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pome::telemetry {

// A moment's figures of the engine, as /metrics reports them. Names that end in _total only grow.
struct EngineFigures {
  bool ready = false;
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t kv_tokens_used = 0;
  int64_t kv_tokens_cached = 0;
  int64_t kv_tokens_max = 0;
  int64_t steps_total = 0;
  int64_t failed_steps_total = 0;
  double last_step_age_s = 0.0;
  int64_t computed_prompt_tokens_total = 0;
  int64_t cached_prompt_tokens_total = 0;
  int64_t generated_tokens_total = 0;
  int64_t retracted_total = 0;
  int64_t evicted_tokens_total = 0;
  double generated_tokens_per_s = 0.0;

  struct Memory {
    std::string item = {};
    std::optional<int64_t> planned_bytes = {};
    std::optional<int64_t> measured_bytes = {};
  };
  std::vector<Memory> memory = {};
  struct Kernel {
    std::string variant = {};
    int64_t runs_total = 0;
  };
  std::vector<Kernel> kernels = {};
};

// One request that the engine accepted, when it has ended.
struct RequestFigures {
  enum class End { finished, aborted, failed };
  End end = End::finished;
  double seconds = 0.0;
  std::optional<double> seconds_to_first_token = {};  // absent when none came
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
};

struct MetricsOptions {
  std::string model_name = {};
  // Upper bounds in seconds, rising; empty: the defaults.
  std::vector<double> time_to_first_token_bounds = {};
  std::vector<double> inter_token_latency_bounds = {};
  std::vector<double> request_latency_bounds = {};
  bool tokens_histograms = false;  // of prompt and output lengths
};

// What GET /metrics says. Any thread.
class ServerMetrics {
 public:
  explicit ServerMetrics(const MetricsOptions& options);
  ~ServerMetrics();

  void observe_request(const RequestFigures& request);
  // `tokens` came `seconds` after the one before them.
  void observe_tokens(double seconds, int64_t tokens);
  // The mean time between the tokens of one whole answer.
  void observe_answer(double seconds_per_token);
  void count_reply(int status);
  // Prometheus' text format, version 0.0.4.
  std::string text(const EngineFigures& engine);

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace pome::telemetry
