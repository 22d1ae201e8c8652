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

inline Status check_tokens(const std::vector<Token>& tokens, const ModelInfo& model,
                           const char* field) {
  for (const Token token : tokens) {
    if (token < 0 || token >= model.vocab_tokens) {
      return invalid(fmt::format("[{}] expected token ids in [0, {}), got {}", field,
                                 model.vocab_tokens, token),
                     field);
    }
  }
  return {};
}

inline Status check_logprobs(const Job& job, const ModelInfo& model, int64_t prompt) {
  if (job.top_logprobs < -1 || job.top_logprobs > sampling::kTopLogprobsMax) {
    return invalid(fmt::format("[top_logprobs] expected 0 to {}, got {}", sampling::kTopLogprobsMax,
                               job.top_logprobs),
                   "top_logprobs");
  }
  if (job.score_from < -1 || job.score_from >= prompt) {
    return invalid(fmt::format("[score_from] expected a position of the prompt's {} tokens, got {}",
                               prompt, job.score_from),
                   "score_from");
  }
  if (job.logprob_tokens.size() > sampling::kLogprobTokensMax) {
    return invalid(fmt::format("[logprob_tokens] expected at most {} token ids, got {}",
                               sampling::kLogprobTokensMax, job.logprob_tokens.size()),
                   "logprob_tokens");
  }
  POME_TRY(check_tokens(job.logprob_tokens, model, "logprob_tokens"));
  if (!job.logprob_tokens.empty() && job.top_logprobs < 0 && job.score_from < 0) {
    return invalid("[logprob_tokens] needs log probabilities of the output or of the prompt",
                   "logprob_tokens");
  }
  return {};
}

// What every engine refuses before a job waits: parameters out of range, foreign token ids, and a
// prompt that together with its output can never fit the context. Messages give the arithmetic.
inline Status check_job(const Job& job, const ModelInfo& model) {
  const int64_t prompt = prompt_token_count(job);
  if (prompt < 1) {
    return invalid("[prompt] expected at least one token, got none", "prompt");
  }
  if (job.max_tokens < 0) {
    return invalid(fmt::format("[max_tokens] expected at least 0, got {}", job.max_tokens),
                   "max_tokens");
  }
  if (prompt + (job.max_tokens > 0 ? 1 : 0) > model.context_tokens) {
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
  if (job.sampling.min_tokens > job.max_tokens) {
    return invalid(fmt::format("[min_tokens] expected at most max_tokens, which is {}, got {}",
                               job.max_tokens, job.sampling.min_tokens),
                   "min_tokens");
  }
  POME_TRY(check_logprobs(job, model, prompt));
  for (const Segment& segment : job.segments) {
    POME_TRY(check_tokens(segment.tokens, model, "prompt"));
  }
  POME_TRY(check_tokens(job.stop_tokens, model, "stop_token_ids"));
  return sampling::check_params(job.sampling, model.vocab_tokens);
}

}  // namespace pome::engine
