#pragma once

#include <cstdint>
#include <vector>

namespace pome::kernels {

// One logit to change before a token is chosen: x > 0 becomes x / repetition, else x * repetition;
// then `add` is added, which may be -inf. Log probabilities do not see it.
struct LogitEdit {
  int32_t token = 0;
  float repetition = 1.0f;
  float add = 0.0f;
};

// How one row draws its token. Filters run in this order, each on what the one before left: edits;
// temperature; top-k (ties at the border go to the lower ids, so exactly k stay); top-p (the fewest
// tokens, from the most probable down, ties by lower id, whose share of what top-k left reaches
// top_p); min-p (probability at least min_p times the largest); then one draw.
struct SampleRow {
  int32_t place = 0;         // the row of the logits
  float temperature = 1.0f;  // 0: greedy, the largest logit, the lowest id among equals
  int32_t top_k = -1;        // <= 0 or >= V: all; 1: greedy
  float top_p = 1.0f;        // >= 1: all
  float min_p = 0.0f;        // 0: all
  uint64_t seed = 0;
  int32_t output_index = 0;           // which output token of the sequence this is
  std::vector<LogitEdit> edits = {};  // in order of token id, each id once, below V
};

// The log probabilities that one position wants.
struct LogprobRow {
  int32_t place = 0;            // the row of the logits
  int32_t token = 0;            // where in `tokens` the token stands that was chosen here
  int32_t top = 0;              // how many of the best, at most V
  int32_t requested_begin = 0;  // further tokens: [begin, end) of LogprobRows::requested
  int32_t requested_end = 0;
};

struct LogprobRows {
  std::vector<LogprobRow> rows = {};
  std::vector<int32_t> requested = {};  // token ids below V; rows may share them
};

}  // namespace pome::kernels
