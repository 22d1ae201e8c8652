#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "base/result.h"
#include "engine/api.h"
#include "sampling/params_check.h"

namespace pome::engine {

inline int64_t prompt_token_count(const Job& job) {
  int64_t total = 0;
  for (const Segment& segment : job.segments) {
    total += static_cast<int64_t>(segment.tokens.size());
  }
  return total;
}

// What every engine refuses before a job waits: parameters out of range, foreign token ids, and a
// prompt that together with its output can never fit the context. Messages give the arithmetic.
inline Status check_job(const Job& job, const ModelInfo& model) {
  const int64_t prompt = prompt_token_count(job);
  if (prompt < 1) {
    return invalid("[prompt] expected at least one token, got none", "prompt");
  }
  if (job.max_tokens < 1) {
    return invalid(fmt::format("[max_tokens] expected at least 1, got {}", job.max_tokens),
                   "max_tokens");
  }
  if (prompt >= model.context_tokens) {
    return invalid(fmt::format("[prompt] the prompt has {} tokens and the context holds {}, the "
                               "answer included: shorten the prompt, or serve with a larger "
                               "--context-length",
                               prompt, model.context_tokens),
                   "prompt");
  }
  if (prompt + job.max_tokens > model.context_tokens) {
    return invalid(fmt::format("[max_tokens] prompt {} + max_tokens {} = {} tokens, but the "
                               "context holds {}: ask for at most {}",
                               prompt, job.max_tokens, prompt + job.max_tokens,
                               model.context_tokens, model.context_tokens - prompt),
                   "max_tokens");
  }
  if (job.top_logprobs < -1 || job.top_logprobs > sampling::kTopLogprobsMax) {
    return invalid(fmt::format("[top_logprobs] expected 0 to {}, got {}", sampling::kTopLogprobsMax,
                               job.top_logprobs),
                   "top_logprobs");
  }
  if (job.prompt_logprobs) {
    return invalid(
        "[prompt_logprobs] log probabilities of prompt tokens are not supported; ask "
        "for those of the output with logprobs",
        "prompt_logprobs");
  }
  for (const Segment& segment : job.segments) {
    for (const Token token : segment.tokens) {
      if (token < 0 || token >= model.vocab_tokens) {
        return invalid(fmt::format("[prompt] expected token ids in [0, {}), got {}",
                                   model.vocab_tokens, token),
                       "prompt");
      }
    }
  }
  return sampling::check_params(job.sampling, model.vocab_tokens);
}

}  // namespace pome::engine
