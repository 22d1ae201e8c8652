#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/sample/sample_rows.h"
#include "sampling/params.h"

namespace pome::sampling {

// Which log probabilities a sequence wants of each token that it gets; as in Job.
struct WantedLogprobs {
  int32_t top = -1;  // -1: none; 0: the token's own; k: and the k best
  std::vector<Token> requested = {};
};

// What sampling must remember of one sequence from step to step. Belongs to the engine's thread.
class SequenceState {
 public:
  // end_tokens cannot be sampled before params.min_tokens outputs.
  SequenceState(Params params, uint64_t seed, std::span<const Token> prompt,
                std::span<const Token> end_tokens, WantedLogprobs logprobs);
  SequenceState(Params params, uint64_t seed, std::span<const Token> prompt,
                std::span<const Token> end_tokens, int32_t top_logprobs)
      : SequenceState(std::move(params), seed, prompt, end_tokens,
                      WantedLogprobs{.top = top_logprobs}) {}

  // A sampled token that stands.
  void accept(Token token);

  const Params& params() const { return params_; }
  uint64_t seed() const { return seed_; }
  int32_t output_index() const { return output_index_; }  // of the token to be sampled next
  const WantedLogprobs& logprobs() const { return logprobs_; }
  // For the next token: every logit below `vocabulary` that changes, in order of token id. A
  // token's penalties and bias are one summand: ((-presence) - frequency · count) + bias, each step
  // in f32.
  std::vector<kernels::LogitEdit> edits(int32_t vocabulary) const;

 private:
  // A token that was seen or has a bias.
  struct Known {
    Token token = 0;
    float bias = 0.0f;
    int32_t outputs = 0;
    bool in_prompt = false;
    bool ends = false;
  };
  Known& known(Token token);
  kernels::LogitEdit edit_of(const Known& known) const;
  bool remembers_prompt() const { return params_.repetition_penalty != 1.0f; }
  bool remembers_output() const;

  Params params_;
  uint64_t seed_;
  WantedLogprobs logprobs_;
  int32_t output_index_ = 0;
  std::vector<Known> known_;  // in order of token id
};

}  // namespace pome::sampling
