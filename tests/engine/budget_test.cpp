#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/llm_engine.h"
#include "toy_model.h"

// A budget with room for one context and nothing more.
namespace pome::engine {
namespace {

using testing::HasSubstr;

constexpr int32_t kContext = 160;
constexpr int64_t kPageBytes = int64_t{2} * 4 * 8 * 2;  // K and V, tokens, numbers, half precision

EngineOptions options_of(int64_t budget) {
  EngineOptions options;
  options.max_running_requests = 4;
  options.max_queued_requests = 3;
  options.chunked_prefill_size = 16;
  options.page_size = 4;
  options.context_length = kContext;
  options.max_memory_bytes = budget;
  options.mem_fraction_static = 1.0;
  options.mlx_cache_bytes = 0;
  options.schedule_conservativeness = 0.01;
  options.disable_radix_cache = true;
  options.check_every_step = true;
  return options;
}

Status start_with(int64_t budget) {
  LlmEngine engine(options_of(budget), toy_loader());
  return engine.wait_until_ready(std::chrono::seconds(30));
}

// To a page.
int64_t smallest_budget() {
  int64_t enough = int64_t{64} << 20;
  int64_t too_small = 0;
  EXPECT_TRUE(start_with(enough).ok());
  while (enough - too_small > kPageBytes) {
    const int64_t middle = too_small + (enough - too_small) / 2;
    (start_with(middle).ok() ? enough : too_small) = middle;
  }
  return enough;
}

Job long_job(uint64_t id) {
  return job_of(id, toy_prompt(40, 60, static_cast<int32_t>(id)), 60);
}

// Seven that together need four times the pool, one that finds the queue full, and one that can
// never fit.
void run_everything(int64_t budget) {
  SCOPED_TRACE("budget " + std::to_string(budget));
  LlmEngine engine(options_of(budget), toy_loader());
  ASSERT_TRUE(engine.wait_until_ready(std::chrono::seconds(30)).ok());
  EXPECT_GE(engine.stats().kv_tokens_max, kContext);
  EXPECT_LE(engine.stats().kv_tokens_max, kContext + 4);
  EXPECT_EQ(engine.model().context_tokens, kContext);
  const Status never = engine.submit(job_of(100, toy_prompt(150, 1), kContext - 150 + 1));
  ASSERT_FALSE(never.ok());
  EXPECT_EQ(never.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(never.error().message, HasSubstr("150 + max_tokens 11 = 161"));
  EXPECT_THAT(never.error().message, HasSubstr("160"));

  int32_t accepted = 0;
  bool refused = false;
  Listener listener(engine);
  for (uint64_t id = 1; !refused; ++id) {
    ASSERT_LT(id, 1000U) << "the queue is never full";
    const Status status = engine.submit(long_job(id));
    refused = !status.ok();
    if (refused) {
      EXPECT_EQ(status.error().code, ErrorCode::queue_full);
    } else {
      ++accepted;
    }
  }
  EXPECT_GE(accepted, 7);
  for (uint64_t id = 1; id <= static_cast<uint64_t>(accepted); ++id) {
    const Heard& heard = listener.until_end(id);
    EXPECT_EQ(heard.last.finish, FinishReason::length);
    EXPECT_EQ(heard.tokens, toy_answer(long_job(id).segments[0].tokens, 60));
  }
  EXPECT_GT(engine.stats().retracted_total, 0);
  ASSERT_TRUE(engine.submit(job_of(200, toy_prompt(150, 10), kContext - 150)).ok());
  EXPECT_EQ(listener.until_end(200).tokens, toy_answer(toy_prompt(150, 10), 10))
      << "one that takes the whole pool";
}

TEST(EngineBudget, RetractsQueuesAndRefusesAtItsLimitAndLosesNothing) {
  const int64_t smallest = smallest_budget();
  const Status below = start_with(smallest - kPageBytes);
  ASSERT_FALSE(below.ok());
  EXPECT_EQ(below.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(below.error().message, HasSubstr("160 tokens of context"));
  EXPECT_THAT(below.error().message, HasSubstr("--context-length 156"));
  run_everything(smallest);
  run_everything(smallest + kPageBytes);
}

}  // namespace
}  // namespace pome::engine
