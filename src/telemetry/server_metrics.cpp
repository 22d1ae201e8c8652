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

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using Bounds = Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

const Bounds kFirstTokenSeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0,
                                   4.0,   6.0,  8.0,   10.0, 20., 40., 60., 80., 100, 200, 400};
const Bounds kRequestSeconds = {0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8,  1.0,  2.0,  4.0,  6.0,  8.0,
                                10.0, 20.,  40., 60., 80., 100, 200., 400., 600., 1200, 1800, 2400};
const Bounds kTokenSeconds = {0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025,
                              0.030, 0.035, 0.040, 0.060, 0.080, 0.100, 0.200, 0.400,
                              0.600, 0.800, 1.0,   2.0,   4.0,   6.0,   8.0};
const Bounds kTokenCounts = {10,   30,    100,   300,   500,    1000,   2000,   4000,
                             8000, 16000, 32000, 64000, 128000, 256000, 1000000};

const Bounds& bounds_or(const Bounds& given, const Bounds& defaults) {
  return given.empty() ? defaults : given;
}

void raise(Counter& counter, int64_t total) {
  counter.Increment(std::max(0.0, static_cast<double>(total) - counter.Value()));
}

double part(int64_t of, int64_t all) {
  return all > 0 ? static_cast<double>(of) / static_cast<double>(all) : 0.0;
}

}  // namespace

struct ServerMetrics::Series {
  explicit Series(const MetricsOptions& given)
      : options(given), labels{{"model_name", given.model_name}} {
    if (options.tokens_histograms) {
      prompt_lengths =
          &histogram("sglang:prompt_tokens_histogram", "Prompt tokens of a request", kTokenCounts);
      output_lengths = &histogram("sglang:generation_tokens_histogram",
                                  "Output tokens of a request", kTokenCounts);
    }
  }

  Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  Family<Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Counter& counter(const char* name, const char* help) { return counters(name, help).Add(labels); }
  Histogram& histogram(const char* name, const char* help, const Bounds& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                     bounds);
  }
  Labels with(const char* name, const std::string& value) const {
    Labels all = labels;
    all[name] = value;
    return all;
  }
  void note_engine(const EngineFigures& engine);
  void note_memory(const EngineFigures& engine);

  const MetricsOptions options;
  const Labels labels;
  prometheus::Registry registry;
  std::mutex mutex;  // two readers must not both add the difference to a counter

  Gauge& running = gauge("sglang:num_running_reqs", "Sequences with a row in the last step");
  Gauge& waiting = gauge("sglang:num_queue_reqs", "Sequences that wait");
  Gauge& used = gauge("sglang:num_used_tokens", "Tokens in the KV pool");
  Gauge& kept =
      gauge("pome:kv_cached_tokens", "Tokens of prefixes that are kept for later requests");
  Gauge& pool = gauge("sglang:max_total_num_tokens", "Tokens that the KV pool holds");
  Gauge& usage = gauge("sglang:token_usage", "Used part of the KV pool, 0 to 1");
  Gauge& rate = gauge("sglang:gen_throughput", "Output tokens per second, lately");
  Gauge& hit_rate =
      gauge("sglang:cache_hit_rate", "Part of all prompt tokens that was found in the cache");
  Counter& prompt = counter("sglang:prompt_tokens_total", "Prompt tokens of ended requests");
  Counter& cached =
      counter("sglang:cached_tokens_total", "Prompt tokens of ended requests found in the cache");
  Counter& generated = counter("sglang:generation_tokens_total", "Output tokens of ended requests");
  Counter& requests = counter("sglang:num_requests_total", "Requests that ended, however");
  Counter& aborted =
      counter("sglang:num_aborted_requests_total", "Requests that ended because somebody gave up");
  Counter& failed = counter("pome:failed_requests_total", "Requests that ended with an error");
  Counter& retracted = counter("sglang:num_retracted_requests_total",
                               "Times that a sequence gave its memory back and waited again");
  Counter& evicted =
      counter("sglang:evicted_tokens_total", "Tokens of cached prefixes that made room");
  Family<Counter>& realtime = counters("sglang:realtime_tokens_total",
                                       "Tokens by what was done for them, running requests too");
  Counter& computed = realtime.Add(with("mode", "prefill_compute"));
  Counter& found = realtime.Add(with("mode", "prefill_cache"));
  Counter& decoded = realtime.Add(with("mode", "decode"));

  Histogram& first_token =
      histogram("sglang:time_to_first_token_seconds", "From the request to its first token",
                bounds_or(options.time_to_first_token_bounds, kFirstTokenSeconds));
  Histogram& latency =
      histogram("sglang:e2e_request_latency_seconds", "From the request to its last token",
                bounds_or(options.request_latency_bounds, kRequestSeconds));
  Histogram& between =
      histogram("sglang:inter_token_latency_seconds", "Between two tokens of an answer",
                bounds_or(options.inter_token_latency_bounds, kTokenSeconds));
  Histogram& per_token = histogram("sglang:time_per_output_token_seconds",
                                   "Mean time between the tokens of an answer, one an answer",
                                   bounds_or(options.inter_token_latency_bounds, kTokenSeconds));
  Histogram* prompt_lengths = nullptr;
  Histogram* output_lengths = nullptr;

  Gauge& ready = gauge("pome:engine_ready", "1 when a token can be generated");
  Gauge& age = gauge("pome:last_step_age_seconds", "Since the last step, 0 while there is no work");
  Counter& steps = counter("pome:steps_total", "Passes through the model");
  Counter& failed_steps =
      counter("pome:failed_steps_total", "Steps that an exception ended, with their sequences");
  Family<Gauge>& planned = prometheus::BuildGauge()
                               .Name("pome:memory_planned_bytes")
                               .Help("The memory plan, item by item")
                               .Register(registry);
  Family<Gauge>& measured = prometheus::BuildGauge()
                                .Name("pome:memory_measured_bytes")
                                .Help("Memory as it is now, item by item")
                                .Register(registry);
  Family<Counter>& kernels =
      counters("pome:kernel_runs_total", "Runs of a kernel, by the variant that ran");
  Family<Counter>& replies = counters("pome:http_replies_total", "HTTP replies by status");
};

ServerMetrics::ServerMetrics(const MetricsOptions& options)
    : series_(std::make_unique<Series>(options)) {}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::observe_request(const RequestFigures& request) {
  Series& series = *series_;
  series.requests.Increment();
  if (request.end == RequestFigures::End::aborted) {
    series.aborted.Increment();
  } else if (request.end == RequestFigures::End::failed) {
    series.failed.Increment();
  }
  series.prompt.Increment(static_cast<double>(request.prompt_tokens));
  series.cached.Increment(static_cast<double>(request.cached_tokens));
  series.generated.Increment(static_cast<double>(request.completion_tokens));
  series.latency.Observe(request.seconds);
  if (request.seconds_to_first_token) {
    series.first_token.Observe(*request.seconds_to_first_token);
  }
  if (series.prompt_lengths != nullptr) {
    series.prompt_lengths->Observe(static_cast<double>(request.prompt_tokens));
    series.output_lengths->Observe(static_cast<double>(request.completion_tokens));
  }
}

void ServerMetrics::observe_tokens(double seconds, int64_t tokens) {
  for (int64_t i = 0; i < tokens; ++i) {
    series_->between.Observe(seconds / static_cast<double>(tokens));
  }
}

void ServerMetrics::observe_answer(double seconds_per_token) {
  series_->per_token.Observe(seconds_per_token);
}

void ServerMetrics::count_reply(int status) {
  series_->replies.Add(series_->with("status", std::to_string(status))).Increment();
}

std::string ServerMetrics::text(const EngineFigures& engine) {
  const std::lock_guard lock(series_->mutex);
  series_->note_engine(engine);
  series_->note_memory(engine);
  return prometheus::TextSerializer().Serialize(series_->registry.Collect());
}

void ServerMetrics::Series::note_engine(const EngineFigures& engine) {
  running.Set(static_cast<double>(engine.running));
  waiting.Set(static_cast<double>(engine.waiting));
  used.Set(static_cast<double>(engine.kv_tokens_used));
  kept.Set(static_cast<double>(engine.kv_tokens_cached));
  pool.Set(static_cast<double>(engine.kv_tokens_max));
  usage.Set(part(engine.kv_tokens_used, engine.kv_tokens_max));
  rate.Set(engine.generated_tokens_per_s);
  hit_rate.Set(part(engine.cached_prompt_tokens_total,
                    engine.cached_prompt_tokens_total + engine.computed_prompt_tokens_total));
  ready.Set(engine.ready ? 1.0 : 0.0);
  age.Set(engine.last_step_age_s);
  raise(steps, engine.steps_total);
  raise(failed_steps, engine.failed_steps_total);
  raise(computed, engine.computed_prompt_tokens_total);
  raise(found, engine.cached_prompt_tokens_total);
  raise(decoded, engine.generated_tokens_total);
  raise(retracted, engine.retracted_total);
  raise(evicted, engine.evicted_tokens_total);
  for (const EngineFigures::Kernel& kernel : engine.kernels) {
    raise(kernels.Add(with("variant", kernel.variant)), kernel.runs_total);
  }
}

void ServerMetrics::Series::note_memory(const EngineFigures& engine) {
  for (const EngineFigures::Memory& memory : engine.memory) {
    if (memory.planned_bytes) {
      planned.Add(with("item", memory.item)).Set(static_cast<double>(*memory.planned_bytes));
    }
    if (memory.measured_bytes) {
      measured.Add(with("item", memory.item)).Set(static_cast<double>(*memory.measured_bytes));
    }
  }
}

}  // namespace pome::telemetry
