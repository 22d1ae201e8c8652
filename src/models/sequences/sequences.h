#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "kvpool/kv_pool.h"
#include "models/language_model.h"

namespace pome::models {

enum class Outputs { none, last, all };

// Tokens that continue one of the sequences.
struct RowTokens {
  int32_t sequence = 0;
  std::vector<Token> tokens;
  Outputs outputs = Outputs::last;
};

struct SequenceOptions {
  int32_t sequences = 1;
  int32_t tokens_max = 64;  // of each sequence
  int32_t page_tokens = 16;
  kvcache::KvFormat format = {.element = kvcache::KvElement::float32};  // of keys and values
};

// Drives a model without an engine: a few sequences in one pool, whose pages lie scattered and
// backwards so that a wrong page table shows. Steps are whole: build, forward.
class Sequences {
 public:
  Sequences(const LanguageModel& model, const SequenceOptions& options);

  using Trace = std::function<void(std::string_view name, const mx::array& x)>;
  // One ragged step in the order of the rows; sequences grow by their tokens. Nothing is evaluated;
  // evaluate the result with handles().
  StepOutput step(const std::vector<RowTokens>& rows, Trace trace = {});
  // The same with input tokens that are on the device: one for each row, in order.
  StepOutput step(const std::vector<RowTokens>& rows, const mx::array& tokens);

  std::vector<mx::array> handles() const { return pool_.handles(); }
  kvpool::KvPool& pool() { return pool_; }
  // Forgets a sequence's tokens; its pages are written again from the start.
  void restart(int32_t sequence) { lengths_[static_cast<size_t>(sequence)] = 0; }

 private:
  int32_t page(int32_t sequence, int32_t block) const;
  layers::Forward build(const std::vector<RowTokens>& rows);

  const LanguageModel& model_;
  SequenceOptions options_;
  int32_t blocks_ = 0;  // pages of a sequence
  kvpool::KvPool pool_;
  std::vector<int32_t> lengths_;
};

}  // namespace pome::models
