#include "pome/bench/target/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "pome/host/environment.h"

namespace pome::apps {
namespace {

constexpr std::chrono::milliseconds kLook{200};

// The sum of a counter's series in Prometheus' text format.
std::optional<double> counter_in(std::string_view text, std::string_view name) {
  std::optional<double> sum;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with(name) && line.size() > name.size() &&
        (line[name.size()] == '{' || line[name.size()] == ' ')) {
      const size_t space = line.rfind(' ');
      sum = sum.value_or(0.0) + std::strtod(std::string(line.substr(space + 1)).c_str(), nullptr);
    }
  }
  return sum;
}

Result<std::string> said(const Result<HttpAnswer>& answer, std::string_view what) {
  if (!answer) {
    return answer.error();
  }
  if (answer->status != 200) {
    return Error{ErrorCode::unavailable, fmt::format("{}: {}", what, explain_answer(*answer)), ""};
  }
  return answer->body;
}

}  // namespace

Result<std::unique_ptr<Target>> Target::open(const std::string& base_url,
                                             std::chrono::seconds ready_timeout) {
  auto client = HttpClient::open(base_url, environment("OPENAI_API_KEY").value_or(""),
                                 hub::settings_from(environment));
  if (!client) {
    return client.error();
  }
  std::unique_ptr<Target> target(new Target(std::move(*client)));
  const auto deadline = std::chrono::steady_clock::now() + ready_timeout;
  auto models = target->client_.ask("GET", "/v1/models");
  while (!models && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kLook);
    models = target->client_.ask("GET", "/v1/models");
  }
  if (!models) {
    return Error{ErrorCode::unavailable,
                 fmt::format("no server is ready at {} ({}); start one with `pome serve`, or name "
                             "it with --base-url",
                             base_url, models.error().message),
                 ""};
  }
  const json::array* cards = find_array(*models, "data");
  const json::object* card =
      cards != nullptr && !cards->empty() ? cards->front().if_object() : nullptr;
  target->model_ = card != nullptr ? find_string(*card, "id").value_or("") : "";
  target->refresh();
  return target;
}

void Target::refresh() {
  if (auto info = client_.ask("GET", "/get_server_info")) {
    info_ = std::move(*info);
  }
}

int32_t Target::vocab_tokens() const {
  const json::object* model = find_object(info_, "model");
  return static_cast<int32_t>(model != nullptr ? find_int(*model, "vocab_size").value_or(10000)
                                               : 10000);
}

std::optional<int32_t> Target::token_capacity() const {
  const auto tokens = find_int(info_, "max_total_num_tokens");
  return tokens && *tokens > 0 ? std::optional(static_cast<int32_t>(*tokens)) : std::nullopt;
}

std::optional<int32_t> Target::running_requests_max() const {
  const json::value* value = find(info_, "max_running_requests");
  if (value == nullptr) {
    return std::nullopt;
  }
  const auto number =
      value->is_string()
          ? std::optional<int64_t>(std::atoll(std::string(value->get_string()).c_str()))
          : as_int(*value);
  return number && *number > 0 ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

std::unique_ptr<PromptTokens> Target::tokens() const {
  return served_tokens(client_, model_, vocab_tokens());
}

std::optional<double> Target::state(std::string_view name) const {
  const json::array* states = find_array(info_, "internal_states");
  const json::object* first =
      states != nullptr && !states->empty() ? states->front().if_object() : nullptr;
  return first != nullptr ? find_double(*first, name) : std::nullopt;
}

Status Target::flush_cache() const {
  const auto answer = said(client_.exchange("POST", "/flush_cache", ""), "POST /flush_cache");
  return answer ? Status() : Status(answer.error());
}

Result<std::string> Target::start_profile(const ProfileOrder& order) const {
  json::object body;
  if (!order.activities.empty()) {
    body["activities"] = json::array(order.activities.begin(), order.activities.end());
  }
  if (order.start_step) {
    body["start_step"] = *order.start_step;
  }
  if (order.steps) {
    body["num_steps"] = *order.steps;
  }
  if (!order.output_dir.empty()) {
    body["output_dir"] = order.output_dir;
  }
  if (!order.prefix.empty()) {
    body["profile_prefix"] = order.prefix;
  }
  return said(client_.exchange("POST", "/start_profile", to_string(json::value(body))),
              "POST /start_profile");
}

Result<std::string> Target::stop_profile() const {
  return said(client_.exchange("POST", "/stop_profile", "{}"), "POST /stop_profile");
}

std::optional<Target::CacheCount> Target::cache_count() const {
  const auto answer = client_.exchange("GET", "/metrics", "");
  if (!answer || answer->status != 200) {
    return std::nullopt;
  }
  const auto prompt = counter_in(answer->body, "sglang:prompt_tokens_total");
  const auto cached = counter_in(answer->body, "sglang:cached_tokens_total");
  return prompt ? std::optional(CacheCount{*prompt, cached.value_or(0.0)}) : std::nullopt;
}

std::string base_url_of(const std::string& base_url, const std::string& host,
                        const std::string& port) {
  if (!base_url.empty()) {
    return base_url;
  }
  if (host.starts_with("http://") || host.starts_with("https://")) {
    return host.find(':', 7) == std::string::npos ? host + ":" + port : host;
  }
  const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return fmt::format("http://{}:{}", bare_ipv6 ? "[" + host + "]" : host, port);
}

}  // namespace pome::apps
