#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace pome::server {

namespace asio = boost::asio;

// A few threads for work that would hold up the network thread. run() belongs to the network
// thread.
class WorkPool {
 public:
  WorkPool(size_t threads, int waiting_max) : waiting_max_(waiting_max), pool_(threads) {}
  ~WorkPool() { join(); }

  // Runs `work` (which returns a Result) on the pool; queue_full when too much waits already.
  template <typename Work>
  asio::awaitable<std::invoke_result_t<Work&>> run(Work work) {
    using Outcome = std::invoke_result_t<Work&>;
    if (waiting_ >= waiting_max_) {
      co_return Outcome(Error{ErrorCode::queue_full, "too many prompts wait to be read", {}});
    }
    // An Outcome has no default value, which co_spawn would need; so it travels beside the
    // coroutine.
    std::optional<Outcome> outcome;
    const auto on_pool = [&]() -> asio::awaitable<void> {
      outcome.emplace(work());
      co_return;
    };
    ++waiting_;
    const Departure departure{waiting_};
    co_await asio::co_spawn(pool_.get_executor(), on_pool, asio::use_awaitable);
    co_return std::move(*outcome);
  }

  asio::thread_pool::executor_type executor() { return pool_.get_executor(); }
  // After the network thread has ended: finishes what waits. Nothing is thrown away, because queued
  // work owns coroutines and generations that need the io context.
  void join() { pool_.join(); }

 private:
  struct Departure {
    int& waiting;
    ~Departure() { --waiting; }
  };

  const int waiting_max_;
  int waiting_ = 0;
  asio::thread_pool pool_;
};

}  // namespace pome::server
