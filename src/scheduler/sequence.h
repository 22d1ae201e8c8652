#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace pome::scheduler {

// One sequence to run.
struct SequenceRequest {
  SequenceId sequence{};
  std::vector<Token> prompt;       // at least one token
  int32_t max_tokens = 1;          // 0: the prompt alone
  std::vector<Token> stop_tokens;  // the model's EOS ids included, unless they are ignored
  int32_t priority = 0;
  std::string cache_namespace = {};  // prefixes are shared inside one namespace only
  int32_t score_from = -1;  // prompt positions from this one on get log probabilities; -1: none
};

enum class EndReason { stop_token, length, aborted, failed };

// A sequence that has ended. Its slot and pages come back once no step is in flight with it.
struct Ended {
  SequenceId sequence{};
  EndReason reason = EndReason::length;
  std::optional<Token> matched_stop = {};
};

// What the scheduler knows of one sequence from submit() to its end. A retracted one waits again
// with its outputs: they are computed anew like a prompt, so its text goes on where it was.
struct Sequence {
  SequenceRequest request;
  std::vector<Token> tokens;  // the prompt, then the committed outputs
  SlotId slot{};
  int32_t built = 0;            // positions in the cache once the steps built so far have run
  int32_t committed = 0;        // the same for the committed steps
  int32_t scored = 0;           // the next prompt position whose log probability is to be committed
  int32_t outputs_pending = 0;  // that the steps in flight sample
  int32_t pending_output = 0;   // the place of the newest of them among its step's outputs
  int32_t steps_in_flight = 0;
  int32_t cached_tokens = 0;  // prompt tokens that the first admission found computed
  int32_t overtaken = 0;      // by later arrivals, while it waited
  int32_t matched = 0;        // what the cache had of it, as of …
  std::optional<uint64_t> matched_version = {};
  int64_t arrival = 0;
  int64_t admission = 0;  // 0 while it waits
  bool admitted_before = false;
  bool leaving = false;  // its pages are wanted: no more rows, retracted when none is in flight
  std::optional<EndReason> end = {};

  int32_t prompt_tokens() const { return static_cast<int32_t>(request.prompt.size()); }
  int32_t known_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t outputs() const { return known_tokens() - prompt_tokens(); }
  // Positions to compute before the next output can be sampled.
  int32_t left() const { return known_tokens() + outputs_pending - built; }
  // One more token of a stream, as against a prompt (or a retracted stream) to be caught up with.
  bool decodes() const { return left() == 1 && outputs() + outputs_pending > 0; }
  bool wants_row() const {
    const int32_t outputs_left = request.max_tokens - outputs() - outputs_pending;
    return !end && !leaving && left() > 0 && (outputs_left > 0 || prompt_only());
  }
  bool prompt_only() const { return request.max_tokens == 0; }
  bool scores() const { return request.score_from >= 0 && scored < prompt_tokens(); }
  // The first position whose logits are wanted for scoring: those of token q are at q - 1.
  int32_t first_scored_position() const { return std::max({request.score_from, scored, 1}) - 1; }
  // How much of it may come from the prefix cache: what needs logits is computed.
  int32_t cacheable_tokens() const {
    const int32_t most = known_tokens() - 1;
    return scores() ? std::min(most, first_scored_position()) : most;
  }
};

}  // namespace pome::scheduler
