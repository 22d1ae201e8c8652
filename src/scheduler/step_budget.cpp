#include "scheduler/step_budget.h"

#include <algorithm>

namespace pome::scheduler {
namespace {

// Steps with fewer tokens are bound by reading the weights and say nothing about a chunk's rate.
constexpr int32_t kTokensMeasurable = 16;
constexpr int32_t kTileTokens = 8;

}  // namespace

void StepBudget::observe(int32_t tokens, std::chrono::nanoseconds duration) {
  if (tokens < kTokensMeasurable || duration.count() <= 0) {
    return;
  }
  const double rate = tokens / std::chrono::duration<double>(duration).count();
  constexpr double kWeight = 0.3;
  tokens_per_s_ = tokens_per_s_ == 0.0 ? rate : tokens_per_s_ + kWeight * (rate - tokens_per_s_);
}

int32_t StepBudget::tokens(bool first_token) const {
  if (options_.tokens_fixed > 0) {
    return options_.tokens_fixed;
  }
  const auto limit = first_token ? options_.step_max_first_token : options_.step_max;
  const double wished = tokens_per_s_ * std::chrono::duration<double>(limit).count();
  const double capped = std::min(wished, static_cast<double>(options_.tokens_max));
  const int32_t tiles = static_cast<int32_t>(capped) / kTileTokens;
  return std::clamp(tiles * kTileTokens, options_.tokens_min, options_.tokens_max);
}

}  // namespace pome::scheduler
