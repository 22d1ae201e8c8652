#pragma once

#include <chrono>
#include <cstdint>

namespace pome::scheduler {

struct StepBudgetOptions {
  int32_t tokens_fixed = 0;  // --chunked-prefill-size; 0: from the measured rate
  int32_t tokens_min = 32;   // also at least one for each stream
  int32_t tokens_max = 2048;
  // Longer steps read prompts faster, as each pays once for the streams' tokens and their logits.
  // Who arrives waits for the rest of a step and for its own, which is the shorter one.
  std::chrono::milliseconds step_max{180};
  std::chrono::milliseconds step_max_first_token{90};
};

// How many tokens the next step may have, so that a prefill chunk stalls running streams for about
// `step_max`. Learns the rate from the steps that ran.
class StepBudget {
 public:
  explicit StepBudget(const StepBudgetOptions& options) : options_(options) {}

  void observe(int32_t tokens, std::chrono::nanoseconds duration);
  // A multiple of 8 where it is not a bound: matrix products like whole tiles.
  // first_token: a short prompt among long ones may have its first token at the end of the step.
  int32_t tokens(bool first_token) const;
  double tokens_per_s() const { return tokens_per_s_; }

 private:
  StepBudgetOptions options_;
  double tokens_per_s_ = 0.0;  // 0: nothing measured yet
};

}  // namespace pome::scheduler
