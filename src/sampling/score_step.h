#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampled_token.h"
#include "tensor/mlx.h"

namespace pome::sampling {

// Logits of so many positions take at most 64 MiB: what one step may score in all, at least 1. The
// scheduler cuts the chunks of scored prompts to it.
inline constexpr int64_t kScoreLogitBytesMax = int64_t{64} << 20;
inline int32_t score_tokens_max(int32_t vocab_tokens) {
  return static_cast<int32_t>(
      std::max<int64_t>(1, kScoreLogitBytesMax / (int64_t{4} * vocab_tokens)));
}

// Consecutive prompt positions of one sequence whose logits a step computes. The logits of a
// position give the token after it its log probability.
struct ScoreSpan {
  int32_t place = 0;                 // the first position's row of the logits
  std::span<const Token> next = {};  // the prompt's token after each position, at least one
  int32_t top = 0;                   // how many of the best at each position
  std::span<const Token> requested = {};
};

// The scores of prompts in one engine step, beside a SampleStep on the same logits. Lazy as that
// is; nothing of a span is needed after construction.
class ScoreStep {
 public:
  // logits [L, V]; at least one span.
  ScoreStep(const mx::array& logits, std::span<const ScoreSpan> spans);

  std::vector<mx::array> arrays() const;
  // After evaluation, for each span: `next` with its log probabilities.
  std::vector<std::vector<SampledToken>> read() const;

 private:
  std::vector<std::vector<Token>> next_;
  LogprobQuery logprobs_;
};

}  // namespace pome::sampling
