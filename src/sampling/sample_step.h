#pragma once

#include <span>
#include <vector>

#include "sampling/sampled_token.h"
#include "sampling/sequence_state.h"
#include "tensor/mlx.h"

namespace pome::sampling {

// The sampling of one engine step. The constructor builds lazy arrays only; the engine evaluates
// arrays() together with the step, then read() is free. Belongs to the engine's thread.
class SampleStep {
 public:
  // logits [L, V]. State r, used only during construction, draws from row places[r] of the logits;
  // without `places` there is one row for each state. At least one state.
  SampleStep(const mx::array& logits, std::span<const SequenceState* const> states,
             std::span<const int32_t> places = {});

  // [O] int32: what the rows of the next step may take as input before anybody has read it.
  const mx::array& tokens() const { return sampled_.tokens; }
  std::vector<mx::array> arrays() const;
  // After evaluation: one entry for each state.
  std::vector<SampledToken> read() const;

 private:
  kernels::Sampled sampled_;
  LogprobQuery logprobs_;
  std::vector<size_t> asking_;  // the states that get log probabilities
};

}  // namespace pome::sampling
