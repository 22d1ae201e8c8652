#include "pome/host/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "hub/transfer/text.h"

namespace pome::apps {
namespace {

const char* verb(hub::Stage stage) {
  switch (stage) {
    case hub::Stage::resolving:
      return "looking for";
    case hub::Stage::downloading:
      return "downloading";
    case hub::Stage::verifying:
      return "verifying";
    case hub::Stage::unpacking:
      return "unpacking";
  }
  return "";
}

double part_of(const hub::Progress& progress) {
  return progress.bytes_total > 0 ? std::clamp(static_cast<double>(progress.bytes_done) /
                                                   static_cast<double>(progress.bytes_total),
                                               0.0, 1.0)
                                  : 0.0;
}

}  // namespace

ProgressBar::ProgressBar() : terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && drawn_) {
    std::fputs("\n", stderr);
  }
}

void ProgressBar::show(const hub::Progress& progress) {
  const auto now = Clock::now();
  const bool new_stage = !drawn_ || progress.stage != stage_;
  if (new_stage) {
    stage_ = progress.stage;
    stage_start_ = now;
    stage_bytes_ = progress.bytes_done;
    tenth_ = -1;
  }
  if (terminal_) {
    const bool whole = progress.bytes_done == progress.bytes_total;
    if (new_stage || whole || now - last_ > std::chrono::milliseconds(100)) {
      last_ = now;
      draw(progress);
    }
    drawn_ = true;
    return;
  }
  const bool long_stage = progress.stage == hub::Stage::downloading;
  const int tenth = long_stage ? static_cast<int>(part_of(progress) * 10) : 0;
  if (tenth > tenth_) {
    tenth_ = tenth;
    draw(progress);
  }
  drawn_ = true;
}

void ProgressBar::draw(const hub::Progress& progress) {
  constexpr int kCells = 24;
  std::string line = fmt::format("{} {}", verb(progress.stage), progress.file);
  if (progress.bytes_total > 0 && (terminal_ || progress.stage == hub::Stage::downloading)) {
    const double part = part_of(progress);
    const double seconds = std::chrono::duration<double>(Clock::now() - stage_start_).count();
    const double speed =
        seconds > 0.5 ? static_cast<double>(progress.bytes_done - stage_bytes_) / seconds : 0.0;
    const std::string bar(static_cast<size_t>(part * kCells), '#');
    line += terminal_ ? fmt::format(" [{:<{}}]", bar, kCells) : std::string();
    line += fmt::format(" {:.0f} %  {} of {}", part * 100, hub::format_bytes(progress.bytes_done),
                        hub::format_bytes(progress.bytes_total));
    if (progress.stage == hub::Stage::downloading && speed > 0) {
      line += fmt::format("  {}/s", hub::format_bytes(static_cast<int64_t>(speed)));
    }
  }
  const std::string text = terminal_ ? "\r\x1b[K" + line : line + "\n";
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace pome::apps
