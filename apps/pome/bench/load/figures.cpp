#include "pome/bench/load/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pome::apps {
namespace {

constexpr size_t kWidth = 50;

// Tokens and requests in each second of the load.
void count_seconds(const std::vector<RequestOutcome>& outcomes, LoadFigures& figures) {
  double begin_s = 0.0, end_s = 0.0;
  bool any = false;
  for (const RequestOutcome& outcome : outcomes) {
    if (outcome.ok) {
      begin_s = any ? std::min(begin_s, outcome.started_s) : outcome.started_s;
      end_s = std::max(end_s, outcome.started_s + outcome.latency_s);
      any = true;
    }
  }
  const auto seconds = static_cast<size_t>(std::ceil(end_s - begin_s)) + 1;
  std::vector<int64_t> tokens(seconds, 0);
  std::vector<int32_t> requests(seconds, 0);
  const auto second_of = [&](double at_s) {
    return std::min(static_cast<size_t>(std::max(at_s - begin_s, 0.0)), seconds - 1);
  };
  for (const RequestOutcome& outcome : outcomes) {
    if (!outcome.ok) {
      continue;
    }
    double at_s = outcome.started_s + outcome.ttft_s;
    ++tokens[second_of(at_s)];
    for (const double gap_s : outcome.gaps_s) {
      at_s += gap_s;
      ++tokens[second_of(at_s)];
    }
    const size_t last = second_of(outcome.started_s + outcome.latency_s);
    for (size_t second = second_of(outcome.started_s); second <= last; ++second) {
      ++requests[second];
    }
  }
  figures.output_tokens_per_s_max =
      static_cast<double>(*std::max_element(tokens.begin(), tokens.end()));
  figures.requests_together_max = *std::max_element(requests.begin(), requests.end());
}

void add_milliseconds(json::object& out, const std::string& name, const Distribution& d) {
  const std::pair<const char*, double> parts[] = {{"mean", d.mean},     {"median", d.median},
                                                  {"std", d.deviation}, {"p90", d.p90},
                                                  {"p95", d.p95},       {"p99", d.p99}};
  for (const auto& [part, value] : parts) {
    out[fmt::format("{}_{}_ms", part, name)] = value * 1e3;
  }
}

std::string distribution_lines(std::string_view banner, std::string_view name,
                               const Distribution& d) {
  std::string out = table_banner(banner, '-');
  const std::pair<const char*, double> parts[] = {
      {"Mean", d.mean}, {"Median", d.median}, {"P90", d.p90}, {"P95", d.p95}, {"P99", d.p99}};
  for (const auto& [part, value] : parts) {
    out += table_line(fmt::format("{} {} (ms):", part, name), value * 1e3);
  }
  return out;
}

std::string cache_lines(const LoadFigures& figures) {
  const auto whole = static_cast<double>(std::max<int64_t>(figures.prompt_tokens_served, 1));
  return table_banner("Cache Hit Details", '-') +
         table_line("Total prompt tokens:", figures.prompt_tokens_served) +
         table_line("Total cached tokens:", figures.cached_tokens) +
         fmt::format("{:<40} {:.1f}%\n",
                     "Cache hit rate:", 100.0 * static_cast<double>(figures.cached_tokens) / whole);
}

}  // namespace

LoadFigures figures_of(const std::vector<DatasetRow>& rows,
                       const std::vector<RequestOutcome>& outcomes, double duration_s) {
  LoadFigures figures{.duration_s = duration_s};
  std::vector<double> latencies, ttfts, tpots, gaps;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const RequestOutcome& outcome = outcomes[i];
    if (!outcome.ok) {
      ++figures.failed;
      continue;
    }
    ++figures.completed;
    figures.input_tokens += rows[i].prompt_tokens;
    figures.output_tokens += outcome.output_tokens;
    figures.prompt_tokens_served += outcome.prompt_tokens;
    figures.cached_tokens += outcome.cached_tokens;
    figures.latency_sum_s += outcome.latency_s;
    latencies.push_back(outcome.latency_s);
    ttfts.push_back(outcome.ttft_s);
    if (outcome.output_tokens > 1) {
      tpots.push_back((outcome.latency_s - outcome.ttft_s) / (outcome.output_tokens - 1));
    }
    gaps.insert(gaps.end(), outcome.gaps_s.begin(), outcome.gaps_s.end());
  }
  figures.latency_s = distribution_of(latencies);
  figures.ttft_s = distribution_of(ttfts);
  figures.tpot_s = distribution_of(tpots);
  figures.itl_s = distribution_of(gaps);
  count_seconds(outcomes, figures);
  return figures;
}

std::string table_banner(std::string_view text, char fill) {
  const size_t room = kWidth - std::min(kWidth, text.size());
  return std::string(room / 2, fill) + std::string(text) + std::string(room - room / 2, fill) +
         "\n";
}

std::string table_line(std::string_view label, double value) {
  return fmt::format("{:<40} {:<10.2f}\n", label, value);
}
std::string table_line(std::string_view label, int64_t value) {
  return fmt::format("{:<40} {:<10}\n", label, value);
}
std::string table_line(std::string_view label, std::string_view value) {
  return fmt::format("{:<40} {:<10}\n", label, value);
}

std::string load_table(const LoadTitle& title, const LoadFigures& f) {
  std::string out = "\n" + table_banner(" Serving Benchmark Result ", '=');
  out += table_line("Backend:", title.backend);
  out += table_line("Traffic request rate:", title.requests_per_s > 0
                                                 ? fmt::format("{}", title.requests_per_s)
                                                 : std::string("inf"));
  out += title.together_max > 0
             ? table_line("Max request concurrency:", int64_t{title.together_max})
             : table_line("Max request concurrency:", "not set");
  out += table_line("Successful requests:", int64_t{f.completed});
  if (f.failed > 0) {
    out += table_line("Failed requests:", int64_t{f.failed});
  }
  out += table_line("Benchmark duration (s):", f.duration_s);
  out += table_line("Total input tokens:", f.input_tokens);
  out += table_line("Total input text tokens:", f.input_tokens);
  out += table_line("Total generated tokens:", f.output_tokens);
  if (f.output_tokens_read_again) {
    out += table_line("Total generated tokens (retokenized):", *f.output_tokens_read_again);
  }
  const auto input = static_cast<double>(f.input_tokens);
  const auto output = static_cast<double>(f.output_tokens);
  out += table_line("Request throughput (req/s):", f.per_s(f.completed));
  out += table_line("Input token throughput (tok/s):", f.per_s(input));
  out += table_line("Output token throughput (tok/s):", f.per_s(output));
  out += table_line("Peak output token throughput (tok/s):", f.output_tokens_per_s_max);
  out += table_line("Peak concurrent requests:", int64_t{f.requests_together_max});
  out += table_line("Total token throughput (tok/s):", f.per_s(input + output));
  out += table_line("Concurrency:", f.per_s(f.latency_sum_s));
  if (f.accept_length) {
    out += table_line("Accept length:", *f.accept_length);
  }
  out += distribution_lines("End-to-End Latency", "E2E Latency", f.latency_s);
  out += distribution_lines("Time to First Token", "TTFT", f.ttft_s);
  out += distribution_lines("Time per Output Token (excl. 1st token)", "TPOT", f.tpot_s);
  out += distribution_lines("Inter-Token Latency", "ITL", f.itl_s);
  out += table_line("Max ITL (ms):", f.itl_s.max * 1e3);
  if (title.cache_report) {
    out += cache_lines(f);
  }
  return out + std::string(kWidth, '=') + "\n";
}

json::object load_fields(const LoadFigures& f) {
  const auto input = static_cast<double>(f.input_tokens);
  const auto output = static_cast<double>(f.output_tokens);
  json::object out{{"duration", f.duration_s},
                   {"completed", f.completed},
                   {"failed", f.failed},
                   {"total_input_tokens", f.input_tokens},
                   {"total_input_text_tokens", f.input_tokens},
                   {"total_input_vision_tokens", 0},
                   {"total_output_tokens", f.output_tokens},
                   {"total_output_tokens_retokenized",
                    f.output_tokens_read_again ? json::value(*f.output_tokens_read_again)
                                               : json::value(nullptr)},
                   {"request_throughput", f.per_s(f.completed)},
                   {"input_throughput", f.per_s(input)},
                   {"output_throughput", f.per_s(output)},
                   {"total_throughput", f.per_s(input + output)}};
  add_milliseconds(out, "e2e_latency", f.latency_s);
  add_milliseconds(out, "ttft", f.ttft_s);
  add_milliseconds(out, "tpot", f.tpot_s);
  add_milliseconds(out, "itl", f.itl_s);
  out["max_itl_ms"] = f.itl_s.max * 1e3;
  out["concurrency"] = f.per_s(f.latency_sum_s);
  out["accept_length"] = f.accept_length ? json::value(*f.accept_length) : json::value(nullptr);
  out["max_output_tokens_per_s"] = f.output_tokens_per_s_max;
  out["max_concurrent_requests"] = f.requests_together_max;
  return out;
}

json::object load_details(const std::vector<RequestOutcome>& outcomes) {
  json::array inputs, outputs, ttfts, itls, texts, errors, cached;
  for (const RequestOutcome& outcome : outcomes) {
    inputs.push_back(outcome.prompt_tokens);
    outputs.push_back(outcome.ok ? outcome.output_tokens : 0);
    ttfts.push_back(outcome.ttft_s);
    itls.push_back(json::array(outcome.gaps_s.begin(), outcome.gaps_s.end()));
    texts.push_back(json::value(outcome.text));
    errors.push_back(json::value(outcome.error));
    cached.push_back(outcome.cached_tokens);
  }
  return {{"input_lens", std::move(inputs)},     {"output_lens", std::move(outputs)},
          {"ttfts", std::move(ttfts)},           {"itls", std::move(itls)},
          {"generated_texts", std::move(texts)}, {"errors", std::move(errors)},
          {"cached_tokens", std::move(cached)}};
}

}  // namespace pome::apps
