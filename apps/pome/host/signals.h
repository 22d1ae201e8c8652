#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace pome::apps {

// Turns SIGTERM and SIGINT into calls of a function, on a thread of its own, so that it may lock
// and allocate. Construct it before any other thread starts: the signals are blocked in all threads
// that come after. SIGPIPE is ignored.
class Signals {
 public:
  // `on_signal` gets the signal's number, each time one comes.
  explicit Signals(std::function<void(int)> on_signal);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  void wait();

  std::function<void(int)> on_signal_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// SIGHUP is ignored from now on, so the process outlives its terminal.
void outlive_terminal();

}  // namespace pome::apps
