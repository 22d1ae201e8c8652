#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pome/bench/target/http_client.h"
#include "pome/bench/target/prompt_tokens.h"

namespace pome::apps {

// What POST /start_profile is asked.
struct ProfileOrder {
  std::vector<std::string> activities = {};
  std::optional<int32_t> start_step = {};
  std::optional<int32_t> steps = {};  // then it ends by itself
  std::string output_dir = {};
  std::string prefix = {};
};

// The server that is measured: what a benchmark asks of it beside the load.
class Target {
 public:
  // Waits until the server answers, at most so long.
  static Result<std::unique_ptr<Target>> open(const std::string& base_url,
                                              std::chrono::seconds ready_timeout);

  const HttpClient& client() const { return client_; }
  // The first name of /v1/models.
  const std::string& model() const { return model_; }
  // Empty where the server has no /get_server_info.
  const json::object& info() const { return info_; }
  int32_t vocab_tokens() const;
  std::optional<int32_t> token_capacity() const;
  std::optional<int32_t> running_requests_max() const;
  std::unique_ptr<PromptTokens> tokens() const;

  // Asks anew what the server says of its state.
  void refresh();
  // A figure of its state: "last_gen_throughput", "avg_spec_accept_length".
  std::optional<double> state(std::string_view name) const;
  Status flush_cache() const;
  // Where the profile will be, as the server says.
  Result<std::string> start_profile(const ProfileOrder& order) const;
  Result<std::string> stop_profile() const;
  // Sums of prompt tokens and of those that were cached, from /metrics.
  struct CacheCount {
    double prompt_tokens = 0.0;
    double cached_tokens = 0.0;
  };
  std::optional<CacheCount> cache_count() const;

 private:
  explicit Target(HttpClient client) : client_(std::move(client)) {}

  HttpClient client_;
  std::string model_;
  json::object info_;
};

// --base-url, else --host and --port.
std::string base_url_of(const std::string& base_url, const std::string& host,
                        const std::string& port);

}  // namespace pome::apps
