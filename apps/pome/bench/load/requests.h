#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "pome/bench/target/http_client.h"

namespace pome::apps {

// How an endpoint is asked and what its answers look like.
enum class Wire { native, completions, chat };
Wire wire_of(std::string_view backend);
const char* path_of(Wire wire);

// What came of one request, as its client saw it.
struct RequestOutcome {
  bool ok = false;
  std::string error = {};
  std::string text = {};
  double started_s = 0.0;  // since the load began
  double ttft_s = 0.0;     // the first piece that says something; the whole time when not streamed
  double latency_s = 0.0;
  std::vector<double> gaps_s = {};  // between tokens; a piece of several shares its gap out
  int32_t prompt_tokens = 0;        // as the server counted, 0 where it does not say
  int32_t output_tokens = 0;
  int32_t cached_tokens = 0;
};

// Sends one request and reads its answer to the end, on the calling thread.
RequestOutcome send_request(const HttpClient& client, Wire wire, const std::string& body);

struct LoadOptions {
  double requests_per_s = 0.0;  // Poisson arrivals; 0: all at once
  int32_t together_max = 0;     // 0: as many as arrive
  uint64_t seed = 1;
  std::function<void(size_t done, const RequestOutcome& outcome)> on_end = {};  // one at a time
};

// Sends each body when its turn comes, the first ones first; outcomes in the order of the bodies.
std::vector<RequestOutcome> run_load(const HttpClient& client, Wire wire,
                                     const std::vector<std::string>& bodies,
                                     const LoadOptions& options);

}  // namespace pome::apps
