#pragma once

#include <algorithm>
#include <cstdint>

namespace pome::scheduler {

// How much of its max_tokens a sequence is expected to use: the part that admission keeps free for
// it. Falls while nothing goes wrong and jumps up when pages ran out, so that few sequences are
// retracted and few pages lie idle.
class NewTokenRatio {
 public:
  // conservativeness 1 starts at 0.7; larger values admit later.
  explicit NewTokenRatio(double conservativeness)
      : first_(std::min(kFirst * conservativeness, 1.0)),
        lowest_(std::min(first_ * kLowestPart, 1.0)),
        ratio_(first_) {}

  double value() const { return ratio_; }
  // Output tokens to keep room for, of `left` that the sequence may still ask for.
  int32_t expect(int32_t left) const {
    return static_cast<int32_t>(ratio_ * std::min(left, kClip)) + 1;
  }

  void step_committed() { ratio_ = std::max(lowest_, ratio_ - (first_ - lowest_) / kDecaySteps); }
  void pages_ran_out() { ratio_ = std::min(1.0, std::max(first_, ratio_ + kJump)); }

 private:
  static constexpr double kFirst = 0.7;
  static constexpr double kLowestPart = 0.14;
  static constexpr double kDecaySteps = 600.0;
  static constexpr double kJump = 0.1;
  static constexpr int32_t kClip = 4096;  // a larger max_tokens is a bound and not a plan

  double first_;
  double lowest_;
  double ratio_;
};

}  // namespace pome::scheduler
