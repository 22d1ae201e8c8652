#include "sampling/sequence_state.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pome::sampling {

SequenceState::SequenceState(Params params, uint64_t seed, std::span<const Token> prompt,
                             std::span<const Token> end_tokens, WantedLogprobs logprobs)
    : params_(std::move(params)), seed_(seed), logprobs_(std::move(logprobs)) {
  if (remembers_prompt()) {
    // A mark for each id, because prompts are long and a sort would hold up the engine's thread.
    std::vector<bool> marks(prompt.empty() ? 0
                                           : *std::max_element(prompt.begin(), prompt.end()) + 1);
    for (const Token token : prompt) {
      marks[static_cast<size_t>(token)] = true;
    }
    for (size_t token = 0; token < marks.size(); ++token) {
      if (marks[token]) {
        known_.push_back({.token = static_cast<Token>(token), .in_prompt = true});
      }
    }
  }
  for (const auto& [token, bias] : params_.logit_bias) {
    known(token).bias = bias;
  }
  if (params_.min_tokens > 0) {
    for (const Token token : end_tokens) {
      known(token).ends = true;
    }
  }
}

bool SequenceState::remembers_output() const {
  return remembers_prompt() || params_.frequency_penalty != 0.0f ||
         params_.presence_penalty != 0.0f;
}

SequenceState::Known& SequenceState::known(Token token) {
  const auto at = std::lower_bound(known_.begin(), known_.end(), token,
                                   [](const Known& k, Token t) { return k.token < t; });
  if (at != known_.end() && at->token == token) {
    return *at;
  }
  return *known_.insert(at, {.token = token});
}

void SequenceState::accept(Token token) {
  ++output_index_;
  if (remembers_output()) {
    ++known(token).outputs;
  }
}

kernels::LogitEdit SequenceState::edit_of(const Known& known) const {
  kernels::LogitEdit edit{.token = known.token};
  if (known.ends && output_index_ < params_.min_tokens) {
    edit.add = -std::numeric_limits<float>::infinity();
    return edit;
  }
  if (known.in_prompt || known.outputs > 0) {
    edit.repetition = params_.repetition_penalty;
  }
  if (known.outputs > 0) {
    edit.add =
        -params_.presence_penalty - params_.frequency_penalty * static_cast<float>(known.outputs);
  }
  edit.add += known.bias;
  return edit;
}

std::vector<kernels::LogitEdit> SequenceState::edits(int32_t vocabulary) const {
  std::vector<kernels::LogitEdit> edits;
  edits.reserve(known_.size());
  for (const Known& known : known_) {
    const kernels::LogitEdit edit = edit_of(known);
    if (edit.token < vocabulary && (edit.repetition != 1.0f || edit.add != 0.0f)) {
      edits.push_back(edit);
    }
  }
  return edits;
}

}  // namespace pome::sampling
