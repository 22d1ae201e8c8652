#pragma once

#include <cstdint>
#include <vector>

#include "models/sequences/graph_nodes.h"
#include "models/sequences/sequences.h"

namespace pome::models {

struct BatchOptions {
  int32_t sequences = 1;
  int32_t tokens_max = 64;     // of each sequence, prompt and answer
  int32_t chunk_tokens = 512;  // of a prompt in one step
  kvcache::KvFormat format = {};
};

// Prompts and the most likely tokens after them, for all sequences of a batch in step.
class GreedyBatch {
 public:
  GreedyBatch(const LanguageModel& model, const BatchOptions& options);

  // Goes on with a prompt for each sequence, one after the other in chunks; the logits behind the
  // last token of each, [B, V], evaluated.
  mx::array prefill(const std::vector<std::vector<Token>>& prompts);
  // The likeliest token of each row.
  static mx::array choose(const mx::array& logits);
  // One token for each sequence after `tokens`, [B]: launched, and not waited for. `nodes`, if
  // given, counts the step's operations.
  mx::array decode(const mx::array& tokens, GraphNodes* nodes = nullptr);

 private:
  const BatchOptions options_;
  Sequences sequences_;
};

}  // namespace pome::models
