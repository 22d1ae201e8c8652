#include "models/sequences/greedy_batch.h"

#include <algorithm>

#include "base/check.h"

namespace pome::models {

GreedyBatch::GreedyBatch(const LanguageModel& model, const BatchOptions& options)
    : options_(options),
      sequences_(model, {.sequences = options.sequences,
                         .tokens_max = options.tokens_max,
                         .format = options.format}) {}

mx::array GreedyBatch::choose(const mx::array& logits) {
  return mx::astype(mx::argmax(logits, -1), mx::int32);
}

mx::array GreedyBatch::prefill(const std::vector<std::vector<Token>>& prompts) {
  CHECK(prompts.size() == static_cast<size_t>(options_.sequences), "a prompt for each sequence");
  std::vector<mx::array> last;
  for (int32_t s = 0; s < options_.sequences; ++s) {
    const std::vector<Token>& tokens = prompts[static_cast<size_t>(s)];
    const auto count = static_cast<int32_t>(tokens.size());
    for (int32_t begin = 0; begin < count; begin += options_.chunk_tokens) {
      const int32_t end = std::min(begin + options_.chunk_tokens, count);
      const std::vector<Token> part(tokens.begin() + begin, tokens.begin() + end);
      const bool whole = end == count;
      const mx::array logits =
          sequences_.step({{s, part, whole ? Outputs::last : Outputs::none}}).logits;
      mx::eval(sequences_.handles());
      if (whole) {
        last.push_back(logits);
        last.back().eval();
      }
    }
  }
  mx::array logits = mx::concatenate(last, 0);
  logits.eval();
  return logits;
}

mx::array GreedyBatch::decode(const mx::array& tokens, GraphNodes* nodes) {
  std::vector<RowTokens> rows;
  for (int32_t s = 0; s < options_.sequences; ++s) {
    rows.push_back({s, {0}, Outputs::last});
  }
  const mx::array next = choose(sequences_.step(rows, tokens).logits);
  std::vector<mx::array> outputs = sequences_.handles();
  outputs.push_back(next);
  if (nodes != nullptr) {
    *nodes = count_nodes(outputs);
  }
  mx::async_eval(outputs);
  return next;
}

}  // namespace pome::models
