#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "pome/bench/target/http_client.h"

namespace pome::apps {

// What came of one batch: prompts that were sent together and streamed to their ends.
struct BatchOutcome {
  double latency_s = 0.0;
  double last_ttft_s = 0.0;  // until the last of them had its first token
  int64_t output_tokens = 0;
  int32_t ended_early = 0;  // before their length
};

// Sends prompts of token ids to POST /generate: one request, or several at once where the batch is
// larger than a request may be. `fields` are the request's others.
Result<BatchOutcome> run_batch(const HttpClient& client,
                               const std::vector<std::vector<Token>>& prompts,
                               const json::object& fields);

}  // namespace pome::apps
