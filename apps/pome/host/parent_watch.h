#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <thread>

namespace pome::apps {

// Calls a function once when the process that started this one has ended. The process, not the
// thread that spawned us: Linux's PR_SET_PDEATHSIG fires when that thread ends, so it is not used.
class ParentWatch {
 public:
  explicit ParentWatch(std::function<void()> on_parent_end);
  ~ParentWatch();
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

 private:
  void wait();

  const pid_t parent_;
  std::function<void()> on_parent_end_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace pome::apps
