#pragma once

#include <chrono>
#include <string>

#include "hub/transfer/download.h"

namespace pome::apps {

// Shows a download on standard error: one line that is drawn over on a terminal, a line every tenth
// elsewhere.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const hub::Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const hub::Progress& progress);

  const bool terminal_;
  bool drawn_ = false;
  hub::Stage stage_ = hub::Stage::resolving;
  int tenth_ = -1;
  int64_t stage_bytes_ = 0;  // done when the stage began, for the speed
  Clock::time_point stage_start_;
  Clock::time_point last_;
};

}  // namespace pome::apps
