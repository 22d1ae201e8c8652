#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/ids.h"
#include "sampling/params.h"

namespace pome::sampling {

// One logit to change before temperature: l > 0 becomes l / repetition, else l · repetition; then
// `add` is added, which may be −infinity.
struct LogitAdjustment {
  Token token = 0;
  float repetition = 1.0f;
  float add = 0.0f;
};

// What sampling must remember of one sequence from step to step. Belongs to the engine's thread.
class SequenceState {
 public:
  // end_tokens cannot be sampled before params.min_tokens outputs. top_logprobs as in Job.
  SequenceState(Params params, uint64_t seed, std::span<const Token> prompt,
                std::vector<Token> end_tokens, int32_t top_logprobs);

  // A sampled token that stands.
  void accept(Token token);

  const Params& params() const { return params_; }
  uint64_t seed() const { return seed_; }
  int32_t output_index() const { return output_index_; }  // of the token to be sampled next
  int32_t top_logprobs() const { return top_logprobs_; }
  // For the next token: one entry for each logit that changes, in order of token id.
  std::vector<LogitAdjustment> adjustments() const;

 private:
  bool remembers_prompt() const { return params_.repetition_penalty != 1.0f; }
  bool remembers_output() const;

  Params params_;
  uint64_t seed_;
  std::vector<Token> end_tokens_;
  int32_t top_logprobs_;
  int32_t output_index_ = 0;
  std::map<Token, int32_t> seen_;  // outputs of each token; 0 for one that only the prompt has
};

}  // namespace pome::sampling
