#include "sampling/score_step.h"

namespace pome::sampling {

ScoreStep::ScoreStep(const mx::array& logits, std::span<const ScoreSpan> spans) {
  std::vector<int32_t> tokens;
  for (const ScoreSpan& span : spans) {
    next_.emplace_back(span.next.begin(), span.next.end());
    for (size_t i = 0; i < span.next.size(); ++i) {
      logprobs_.add(span.place + static_cast<int32_t>(i), static_cast<int32_t>(tokens.size()),
                    std::min(span.top, logits.shape(1)), span.requested);
      tokens.push_back(span.next[i]);
    }
  }
  logprobs_.ask(logits, mx::array(tokens.data(), {static_cast<int32_t>(tokens.size())}, mx::int32));
}

std::vector<mx::array> ScoreStep::arrays() const {
  std::vector<mx::array> arrays;
  logprobs_.append_arrays(arrays);
  return arrays;
}

std::vector<std::vector<SampledToken>> ScoreStep::read() const {
  std::vector<std::vector<SampledToken>> scores;
  size_t position = 0;
  for (const std::vector<Token>& next : next_) {
    std::vector<SampledToken>& span = scores.emplace_back();
    for (const Token token : next) {
      logprobs_.read(position++, span.emplace_back(SampledToken{.token = token}));
    }
  }
  return scores;
}

}  // namespace pome::sampling
