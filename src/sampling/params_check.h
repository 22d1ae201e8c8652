#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/result.h"
#include "sampling/params.h"

namespace pome::sampling {

// The most tokens whose log probabilities one request may ask for, per position.
inline constexpr int32_t kTopLogprobsMax = 20;
// The most tokens that one request may name to learn their log probabilities.
inline constexpr size_t kLogprobTokensMax = 256;
// The most entries of logit_bias.
inline constexpr size_t kLogitBiasMax = 1024;

namespace detail {

// NaN fails both comparisons, so it is refused with the rest.
inline Status in_range(const char* field, double value, double low, double high) {
  if (value >= low && value <= high) {
    return {};
  }
  return invalid(fmt::format("[{}] expected a number in [{}, {}], got {}", field, low, high, value),
                 field);
}

}  // namespace detail

// Refuses parameters outside their ranges, naming the request field. `vocab_tokens` bounds token
// ids; 0 leaves them unchecked, for callers that do not know the model yet.
inline Status check_params(const Params& p, int32_t vocab_tokens = 0) {
  using detail::in_range;
  POME_TRY(in_range("temperature", p.temperature, 0.0, 100.0));
  if (!(p.top_p > 0.0f && p.top_p <= 1.0f)) {
    return invalid(fmt::format("[top_p] expected a number in (0, 1], got {}", p.top_p), "top_p");
  }
  if (p.top_k != -1 && p.top_k < 1) {
    return invalid(fmt::format("[top_k] expected -1 (no limit) or at least 1, got {}", p.top_k),
                   "top_k");
  }
  POME_TRY(in_range("min_p", p.min_p, 0.0, 1.0));
  POME_TRY(in_range("frequency_penalty", p.frequency_penalty, -2.0, 2.0));
  POME_TRY(in_range("presence_penalty", p.presence_penalty, -2.0, 2.0));
  if (!(p.repetition_penalty > 0.0f && p.repetition_penalty <= 2.0f)) {
    return invalid(fmt::format("[repetition_penalty] expected a number in (0, 2], got {}",
                               p.repetition_penalty),
                   "repetition_penalty");
  }
  if (p.min_tokens < 0) {
    return invalid(fmt::format("[min_tokens] expected at least 0, got {}", p.min_tokens),
                   "min_tokens");
  }
  if (p.logit_bias.size() > kLogitBiasMax) {
    return invalid(fmt::format("[logit_bias] expected at most {} entries, got {}", kLogitBiasMax,
                               p.logit_bias.size()),
                   "logit_bias");
  }
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || (vocab_tokens > 0 && token >= vocab_tokens)) {
      return invalid(
          fmt::format("[logit_bias] expected token ids below {}, got {}", vocab_tokens, token),
          "logit_bias");
    }
    POME_TRY(in_range("logit_bias", bias, -100.0, 100.0));
  }
  return {};
}

}  // namespace pome::sampling
