#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

namespace pome::server {

// How fast places become free: when sequences ended in the last minute, at most the last 256.
// Not for several threads.
class FinishRate {
 public:
  using Clock = std::chrono::steady_clock;

  void note_work(Clock::time_point at) { busy_since_ = at; }  // there was none before
  void note_end(Clock::time_point at) {
    ends_.push_back(at);
    if (ends_.size() > kEndsMax) {
      ends_.pop_front();
    }
  }

  // Whole seconds until `places` more have ended at that rate, from 1 to 60. While nothing has
  // ended, as long as that has gone on already.
  int seconds_until(int places, Clock::time_point now) const {
    auto since = std::max(busy_since_, now - kWindow);
    if (ends_.size() == kEndsMax) {
      since = std::max(since, ends_.front());  // what came before it is forgotten
    }
    const auto first = std::lower_bound(ends_.begin(), ends_.end(), since);
    const auto ends = static_cast<double>(ends_.end() - first);
    const double watched = std::chrono::duration<double>(now - since).count();
    const double wait = watched * std::max(1, places) / std::max(1.0, ends);
    return static_cast<int>(std::clamp(std::ceil(wait), 1.0, 60.0));
  }

 private:
  static constexpr size_t kEndsMax = 256;
  static constexpr std::chrono::seconds kWindow{60};

  std::deque<Clock::time_point> ends_;  // in order
  Clock::time_point busy_since_ = Clock::now();
};

}  // namespace pome::server
