#include "pome/host/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

namespace pome::apps {
namespace {

// Wakes the waiting thread at the end; no other use of it here.
constexpr int kWake = SIGUSR1;

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, kWake}) {
    sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

Signals::Signals(std::function<void(int)> on_signal) : on_signal_(std::move(on_signal)) {
  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { wait(); });
}

Signals::~Signals() {
  stopping_ = true;
  ::pthread_kill(thread_.native_handle(), kWake);
  thread_.join();
}

void outlive_terminal() {
  ::signal(SIGHUP, SIG_IGN);
}

void Signals::wait() {
  const sigset_t set = watched();
  while (!stopping_) {
    int signal = 0;
    if (::sigwait(&set, &signal) == 0 && signal != kWake) {
      on_signal_(signal);
    }
  }
}

}  // namespace pome::apps
