#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/sample/sample.h"

namespace pome::sampling {

struct RankedToken {
  Token token = 0;
  float logprob = 0.0f;
};

// A token that was drawn, or one that stands in a prompt. Log probabilities are the log softmax of
// the raw logits, before every penalty, bias and filter.
struct SampledToken {
  Token token = 0;
  float logprob = 0.0f;                     // set where log probabilities were asked for
  std::vector<RankedToken> top = {};        // the best, best first, ties by lower id
  std::vector<RankedToken> requested = {};  // those that the sequence named, in its order
  // The logits hold a NaN or their largest is not finite: token and log probabilities mean nothing,
  // and the sequence must end with an error. Its neighbours are right.
  bool broken = false;
};

// Log probabilities on their way: collects what positions want, and hands it out after evaluation.
class LogprobQuery {
 public:
  // One more position: row `place` of the logits, and the token at `index` of the tokens. At most V
  // tokens of `requested` below V; neighbours that request the same span share one copy.
  void add(int32_t place, int32_t index, int32_t top, std::span<const Token> requested);
  bool empty() const { return offsets_.empty(); }

  // Builds lazy arrays of what was added; nothing may be added any more. tokens int32.
  void ask(const mx::array& logits, const mx::array& tokens);
  void append_arrays(std::vector<mx::array>& arrays) const;
  // After evaluation: the log probabilities of position i, in the order of add(), into `token`.
  void read(size_t i, SampledToken& token) const;

 private:
  struct Offsets {
    size_t top = 0;
    size_t requested = 0;
  };
  kernels::LogprobRows rows_;
  std::vector<Offsets> offsets_;
  Offsets next_;
  std::span<const Token> last_requested_;
  std::optional<kernels::Logprobs> answer_;
};

}  // namespace pome::sampling
