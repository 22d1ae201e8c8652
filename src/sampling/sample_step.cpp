#include "sampling/sample_step.h"

#include <algorithm>

#include "base/check.h"

namespace pome::sampling {
namespace {

using States = std::span<const SequenceState* const>;
using Places = std::span<const int32_t>;

int32_t place_of(Places places, size_t r) {
  return places.empty() ? static_cast<int32_t>(r) : places[r];
}

std::vector<kernels::SampleRow> rows_of(States states, Places places, int32_t vocabulary) {
  std::vector<kernels::SampleRow> rows;
  rows.reserve(states.size());
  for (size_t r = 0; r < states.size(); ++r) {
    const SequenceState& state = *states[r];
    const Params& params = state.params();
    rows.push_back({.place = place_of(places, r),
                    .temperature = params.temperature,
                    .top_k = params.top_k,
                    .top_p = params.top_p,
                    .min_p = params.min_p,
                    .seed = state.seed(),
                    .output_index = state.output_index(),
                    .edits = state.edits(vocabulary)});
  }
  return rows;
}

}  // namespace

SampleStep::SampleStep(const mx::array& logits, States states, Places places)
    : sampled_(kernels::sample(logits, rows_of(states, places, logits.shape(1)))) {
  CHECK(places.size() == states.size() ||
            (places.empty() && logits.shape(0) == static_cast<int32_t>(states.size())),
        "one row of logits for each state");
  for (size_t r = 0; r < states.size(); ++r) {
    const WantedLogprobs& wanted = states[r]->logprobs();
    if (wanted.top >= 0) {
      logprobs_.add(place_of(places, r), static_cast<int32_t>(r),
                    std::min(wanted.top, logits.shape(1)), wanted.requested);
      asking_.push_back(r);
    }
  }
  if (!logprobs_.empty()) {
    logprobs_.ask(logits, sampled_.tokens);
  }
}

std::vector<mx::array> SampleStep::arrays() const {
  std::vector<mx::array> arrays = {sampled_.tokens, sampled_.broken};
  logprobs_.append_arrays(arrays);
  return arrays;
}

std::vector<SampledToken> SampleStep::read() const {
  std::vector<SampledToken> tokens(sampled_.tokens.size());
  for (size_t r = 0; r < tokens.size(); ++r) {
    tokens[r].token = sampled_.tokens.data<int32_t>()[r];
    tokens[r].broken = sampled_.broken.data<int32_t>()[r] != 0;
  }
  for (size_t i = 0; i < asking_.size(); ++i) {
    logprobs_.read(i, tokens[asking_[i]]);
  }
  return tokens;
}

}  // namespace pome::sampling
