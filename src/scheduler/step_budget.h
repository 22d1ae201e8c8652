#pragma once

#include <chrono>
#include <cstdint>

namespace pome::scheduler {

struct StepBudgetOptions {
  int32_t tokens_fixed = 0;  // --chunked-prefill-size; 0: from the measured rate
  int32_t tokens_min = 32;   // also at least one for each stream
  int32_t tokens_max = 2048;
  std::chrono::milliseconds step_max{150};        // while somebody is being answered
  std::chrono::milliseconds step_max_alone{600};  // while nobody is
};

// How many tokens the next step may have, so that a prefill chunk stalls running streams for at
// most `step_max`. Learns the rate from the steps that ran.
class StepBudget {
 public:
  explicit StepBudget(const StepBudgetOptions& options) : options_(options) {}

  void observe(int32_t tokens, std::chrono::nanoseconds duration);
  // A multiple of 32 where it is not a bound: matrix products like whole tiles.
  int32_t tokens(bool streams_running) const;
  double tokens_per_s() const { return tokens_per_s_; }

 private:
  StepBudgetOptions options_;
  double tokens_per_s_ = 0.0;  // 0: nothing measured yet
};

}  // namespace pome::scheduler
