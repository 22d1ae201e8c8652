#include "sampling/sequence_state.h"

#include <limits>
#include <utility>

namespace pome::sampling {

SequenceState::SequenceState(Params params, uint64_t seed, std::span<const Token> prompt,
                             std::vector<Token> end_tokens, int32_t top_logprobs)
    : params_(std::move(params)),
      seed_(seed),
      end_tokens_(std::move(end_tokens)),
      top_logprobs_(top_logprobs) {
  if (remembers_prompt()) {
    for (const Token token : prompt) {
      seen_.emplace(token, 0);
    }
  }
}

bool SequenceState::remembers_output() const {
  return remembers_prompt() || params_.frequency_penalty != 0.0f ||
         params_.presence_penalty != 0.0f;
}

void SequenceState::accept(Token token) {
  ++output_index_;
  if (remembers_output()) {
    ++seen_[token];
  }
}

std::vector<LogitAdjustment> SequenceState::adjustments() const {
  std::map<Token, LogitAdjustment> changed;
  const auto at = [&changed](Token token) -> LogitAdjustment& {
    LogitAdjustment& adjustment = changed[token];
    adjustment.token = token;
    return adjustment;
  };
  for (const auto& [token, outputs] : seen_) {
    LogitAdjustment& adjustment = at(token);
    adjustment.repetition = params_.repetition_penalty;
    if (outputs > 0) {
      adjustment.add -= params_.presence_penalty;
      adjustment.add -= params_.frequency_penalty * static_cast<float>(outputs);
    }
  }
  for (const auto& [token, bias] : params_.logit_bias) {
    at(token).add += bias;
  }
  if (output_index_ < params_.min_tokens) {
    for (const Token token : end_tokens_) {
      at(token).add = -std::numeric_limits<float>::infinity();
    }
  }
  std::vector<LogitAdjustment> adjustments;
  adjustments.reserve(changed.size());
  for (const auto& [token, adjustment] : changed) {
    adjustments.push_back(adjustment);
  }
  return adjustments;
}

}  // namespace pome::sampling
