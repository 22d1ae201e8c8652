#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace pome::sampling {

// How the next token is chosen. Filters run in this order, each on what the one before left:
// penalties and bias on the logits; temperature; top-k; top-p; min-p; then one draw. Pure data:
// protocol fills it, sampling reads it.
struct Params {
  float temperature = 1.0f;  // 0 means greedy: the largest logit, the lowest token id among equals
  float top_p = 1.0f;        // (0, 1]
  int32_t top_k = -1;        // -1: the whole vocabulary
  float min_p = 0.0f;        // [0, 1]
  // Sampling noise is a function of seed, output index and token id, so it does not depend on
  // neighbours. Every request has a seed from admission; absent means "draw one".
  std::optional<uint64_t> seed = {};
  float frequency_penalty = 0.0f;  // [-2, 2]
  float presence_penalty = 0.0f;   // [-2, 2]
  float repetition_penalty = 1.0f;
  std::map<Token, float> logit_bias = {};
  int32_t min_tokens = 0;

  bool greedy() const { return temperature == 0.0f || top_k == 1; }
};

}  // namespace pome::sampling
