#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "sampling/sequence_state.h"
#include "tensor/mlx.h"

namespace pome::sampling {

struct RankedToken {
  Token token = 0;
  float logprob = 0.0f;
};

struct SampledToken {
  Token token = 0;
  float logprob = 0.0f;               // set when the row asked for log probabilities
  std::vector<RankedToken> top = {};  // best first
};

// The sampling of one engine step. The constructor builds lazy arrays only; the engine evaluates
// arrays() together with the step, then read() is free. Belongs to the engine's thread.
class SampleStep {
 public:
  // logits [O, V] f32; one state for each row, used only during construction.
  SampleStep(const mx::array& logits, std::span<const SequenceState* const> rows);

  // [O] int32: what the rows of the next step may take as input before anybody has read it.
  const mx::array& tokens() const { return tokens_; }
  std::vector<mx::array> arrays() const;
  // After evaluation: one entry for each row.
  std::vector<SampledToken> read() const;

 private:
  struct RowLogprobs {
    std::vector<int32_t> rows;            // those that asked
    std::vector<int32_t> ranks;           // how many of the best each of them wants
    mx::array chosen;                     // [rows] f32
    std::optional<mx::array> top_values;  // [rows, k] f32
    std::optional<mx::array> top_ids;     // [rows, k] int32
  };
  mx::array tokens_;
  std::optional<RowLogprobs> logprobs_;
};

// logits [O, V] with the rows' adjustments applied; `logits` itself when there are none.
mx::array adjust_logits(const mx::array& logits, std::span<const SequenceState* const> rows);

}  // namespace pome::sampling
