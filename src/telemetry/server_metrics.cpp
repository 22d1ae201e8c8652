#include "telemetry/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace pome::telemetry {
namespace {

using prometheus::Histogram;

const Histogram::BucketBoundaries kSeconds = {0.01, 0.025, 0.05, 0.1,  0.25, 0.5,   1.0,
                                              2.5,  5.0,   10.0, 25.0, 50.0, 100.0, 250.0};
const Histogram::BucketBoundaries kTokenSeconds = {0.002, 0.005, 0.01, 0.02, 0.03, 0.05,
                                                   0.075, 0.1,   0.15, 0.25, 0.5,  1.0};

}  // namespace

struct ServerMetrics::Series {
  explicit Series(const std::string& model_name) : labels{{"model_name", model_name}} {}

  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  Histogram& histogram(const char* name, const char* help,
                       const Histogram::BucketBoundaries& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                     bounds);
  }

  prometheus::Registry registry;
  const std::map<std::string, std::string> labels;
  std::mutex mutex;  // two readers must not both add the difference to a counter

  prometheus::Gauge& running =
      gauge("sglang:num_running_reqs", "Sequences with a row in the last step");
  prometheus::Gauge& waiting = gauge("sglang:num_queue_reqs", "Sequences that wait");
  prometheus::Gauge& used = gauge("sglang:num_used_tokens", "Tokens in the KV pool");
  prometheus::Gauge& pool = gauge("sglang:max_total_num_tokens", "Tokens that the KV pool holds");
  prometheus::Gauge& usage = gauge("sglang:token_usage", "Used part of the KV pool, 0 to 1");
  prometheus::Gauge& rate = gauge("sglang:gen_throughput", "Output tokens per second, lately");
  prometheus::Gauge& hit_rate =
      gauge("sglang:cache_hit_rate", "Part of all prompt tokens that was found in the cache");
  prometheus::Counter& prompt = counter("sglang:prompt_tokens_total", "Prompt tokens");
  prometheus::Counter& cached =
      counter("sglang:cached_tokens_total", "Prompt tokens found in the cache");
  prometheus::Counter& generated = counter("sglang:generation_tokens_total", "Output tokens");
  prometheus::Counter& aborted =
      counter("sglang:num_aborted_requests_total", "Sequences that were cancelled");
  prometheus::Counter& requests = counter("sglang:num_requests_total", "Requests that ended");
  Histogram& first_token = histogram("sglang:time_to_first_token_seconds",
                                     "From the request to its first token", kSeconds);
  Histogram& latency = histogram("sglang:e2e_request_latency_seconds",
                                 "From the request to its last token", kSeconds);
  Histogram& per_token =
      histogram("sglang:inter_token_latency_seconds",
                "Mean time between the tokens of a request, after the first", kTokenSeconds);
  prometheus::Family<prometheus::Counter>& replies = prometheus::BuildCounter()
                                                         .Name("pome:http_replies_total")
                                                         .Help("HTTP replies by status")
                                                         .Register(registry);
};

ServerMetrics::ServerMetrics(const std::string& model_name)
    : series_(std::make_unique<Series>(model_name)) {}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::observe_request(const RequestFigures& request) {
  series_->requests.Increment();
  series_->first_token.Observe(request.seconds_to_first_token);
  series_->latency.Observe(request.seconds);
  if (request.completion_tokens > 1) {
    series_->per_token.Observe((request.seconds - request.seconds_to_first_token) /
                               static_cast<double>(request.completion_tokens - 1));
  }
}

void ServerMetrics::count_reply(int status) {
  series_->replies.Add({{"status", std::to_string(status)}}).Increment();
}

std::string ServerMetrics::text(const EngineFigures& engine) {
  const std::lock_guard lock(series_->mutex);
  const auto set = [](prometheus::Gauge& gauge, double value) { gauge.Set(value); };
  const auto raise = [](prometheus::Counter& counter, int64_t total) {
    counter.Increment(std::max(0.0, static_cast<double>(total) - counter.Value()));
  };
  const auto part = [](int64_t of, int64_t all) {
    return all > 0 ? static_cast<double>(of) / static_cast<double>(all) : 0.0;
  };
  set(series_->running, static_cast<double>(engine.running));
  set(series_->waiting, static_cast<double>(engine.waiting));
  set(series_->used, static_cast<double>(engine.kv_tokens_used));
  set(series_->pool, static_cast<double>(engine.kv_tokens_max));
  set(series_->usage, part(engine.kv_tokens_used, engine.kv_tokens_max));
  set(series_->rate, engine.generated_tokens_per_s);
  set(series_->hit_rate, part(engine.cached_tokens_total, engine.prompt_tokens_total));
  raise(series_->prompt, engine.prompt_tokens_total);
  raise(series_->cached, engine.cached_tokens_total);
  raise(series_->generated, engine.generated_tokens_total);
  raise(series_->aborted, engine.cancelled_total);
  return prometheus::TextSerializer().Serialize(series_->registry.Collect());
}

}  // namespace pome::telemetry
