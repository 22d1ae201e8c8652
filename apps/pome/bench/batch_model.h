#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "hub/transfer/settings.h"
#include "pome/flags/settings.h"
#include "telemetry/trace.h"

namespace pome::apps {

// Operations of one decode step.
struct BatchNodes {
  int64_t total = 0;
  std::vector<std::pair<std::string, int64_t>> by_name;  // most first
  int64_t weight_bytes = 0;
};

// A model without an engine, and a batch of sequences that it continues greedily: one step at a
// time, each timed until the device is done. One thread.
class BatchModel {
 public:
  virtual ~BatchModel() = default;

  virtual int32_t vocab_tokens() const = 0;
  virtual int32_t context_tokens() const = 0;
  virtual Result<std::vector<std::vector<Token>>> encode(
      const std::vector<std::string>& texts) const = 0;
  virtual std::string decode_text(const std::vector<Token>& tokens) const = 0;

  // Forgets the batch and begins one of so many sequences, each of at most `tokens_max` tokens.
  virtual void begin(int32_t sequences, int32_t tokens_max) = 0;
  // Go on with a prompt for each sequence, or with the token that each chose; seconds.
  virtual double prefill(const std::vector<std::vector<Token>>& prompts) = 0;
  virtual double decode(bool count_nodes) = 0;
  // Of the last step.
  virtual std::vector<std::vector<float>> logits() const = 0;  // of a prefill alone
  virtual std::vector<Token> tokens() const = 0;
  virtual const BatchNodes& nodes() const = 0;  // of the step that was counted
};

// The model that the settings name, loaded on the calling thread. A build without MLX refuses.
Result<std::unique_ptr<BatchModel>> open_batch_model(const Settings& settings,
                                                     const hub::Settings& hub,
                                                     const std::atomic<bool>& stop,
                                                     telemetry::Trace& trace);

}  // namespace pome::apps
