#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "engine/llm_engine.h"
#include "toy_model.h"

namespace pome::engine {
namespace {

// Clients on threads of their own that ask, leave early, and ask for what is refused.
class Clients {
 public:
  explicit Clients(LlmEngine& engine) : engine_(engine) {}

  void run(uint64_t seed, int32_t requests) {
    std::mt19937_64 random(seed);
    const auto pick = [&random](int32_t low, int32_t high) {
      return std::uniform_int_distribution<int32_t>(low, high)(random);
    };
    for (int32_t i = 0; i < requests; ++i) {
      const uint64_t id = ++last_id_;
      std::vector<Token> prompt;
      for (int32_t n = pick(1, 90); n > 0; --n) {
        prompt.push_back(pick(0, 59));
      }
      if (pick(0, 30) == 0) {
        prompt.back() = pick(0, 1) == 0 ? kToyThrows : kToyThrowsLate;
      }
      const Job job = job_of(id, prompt, pick(1, 30));
      const Status status = engine_.submit(job);
      if (status.ok()) {
        const std::lock_guard lock(mutex_);
        accepted_[id] = job;
      } else if (status.error().code != ErrorCode::queue_full) {
        ADD_FAILURE() << status.error().message;
      }
      if (pick(0, 3) == 0) {
        engine_.cancel(RequestId{id});
      }
      std::this_thread::sleep_for(std::chrono::microseconds(pick(0, 2000)));
    }
  }

  const std::map<uint64_t, Job>& accepted() const { return accepted_; }

 private:
  LlmEngine& engine_;
  std::atomic<uint64_t> last_id_ = 0;
  std::mutex mutex_;
  std::map<uint64_t, Job> accepted_;
};

void check_answer(const Job& job, const Heard& heard, int32_t& complete) {
  const std::vector<Token> whole = toy_answer(job.segments[0].tokens, job.max_tokens);
  switch (heard.last.finish) {
    case FinishReason::length:
    case FinishReason::stop_token:
      ASSERT_EQ(heard.tokens, whole);
      ++complete;
      break;
    case FinishReason::cancelled:
    case FinishReason::error:  // it shared a step with a prompt that throws
      ASSERT_LE(heard.tokens.size(), whole.size());
      ASSERT_TRUE(std::equal(heard.tokens.begin(), heard.tokens.end(), whole.begin()));
      break;
    case FinishReason::none:
      FAIL() << "it never ended";
  }
}

TEST(EngineClients, ManyAtOnceGetTheirOwnAnswersOrAReasonAndLeaveNothingBehind) {
  EngineOptions options;
  options.max_running_requests = 6;
  options.max_queued_requests = 20;
  options.chunked_prefill_size = 24;
  options.page_size = 4;
  options.check_every_step = true;
  LlmEngine engine(options, toy_loader());
  ASSERT_TRUE(engine.wait_until_ready(std::chrono::seconds(30)).ok());
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Clients clients(engine);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&clients, seed, t] { clients.run(seed + t, 150); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  Listener listener(engine);
  int32_t complete = 0;
  for (const auto& [id, job] : clients.accepted()) {
    SCOPED_TRACE("sequence " + std::to_string(id));
    ASSERT_NO_FATAL_FAILURE(check_answer(job, listener.until_end(id), complete));
  }
  EXPECT_GT(complete, 20);
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.running + stats.waiting + stats.kv_tokens_used, 0);
  EXPECT_EQ(stats.finished_total + stats.cancelled_total,
            static_cast<int64_t>(clients.accepted().size()));
  EXPECT_EQ(stats.last_step_age.count(), 0);
}

}  // namespace
}  // namespace pome::engine
