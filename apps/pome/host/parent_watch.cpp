#include "pome/host/parent_watch.h"

#include <unistd.h>

#include <chrono>
#include <utility>

namespace pome::apps {

ParentWatch::ParentWatch(std::function<void()> on_parent_end)
    : parent_(::getppid()), on_parent_end_(std::move(on_parent_end)), thread_([this] { wait(); }) {}

ParentWatch::~ParentWatch() {
  stopping_ = true;
  thread_.join();
}

// A child of an ended process is adopted at once, so its parent's id changes. Asking costs a
// microsecond; event sources (pidfd, kqueue) exist on one system each, and would still need this
// check for a parent that ended before they watched.
void ParentWatch::wait() {
  while (!stopping_) {
    if (::getppid() != parent_) {
      on_parent_end_();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace pome::apps
