#include "engine/memory/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/memory/available_memory.h"
#include "kvcache/paged_cache.h"

namespace pome::engine {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

// 1 MiB a page of 16 tokens, and 4 KiB of activations a token with one logit row of nothing.
MemoryDemand demand_of(int64_t weight_bytes) {
  MemoryDemand demand;
  demand.weight_bytes = weight_bytes;
  demand.cache.page_tokens = 16;
  demand.cache.groups.resize(2);
  demand.cache.groups[0].bytes_per_page = 3 * kMiB / 4;
  demand.cache.groups[1].bytes_per_page = kMiB / 4;
  demand.step_tokens_max = 0;
  demand.max_running_requests = 4;
  demand.context_model = 4096;
  return demand;
}

TEST(MemoryPlan, GivesTheRestOfTheBudgetToKvPages) {
  const auto plan =
      plan_memory(demand_of(100 * kMiB), {.available_bytes = 500 * kMiB, .fraction_static = 1.0});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->kv_tokens_max, (400 - 1) * 16);
  EXPECT_THAT(plan->group_pages, ElementsAre(400, 400));
  EXPECT_EQ(plan->context_tokens, 4096);
  EXPECT_EQ(plan->planned_bytes(), 500 * kMiB);
}

TEST(MemoryPlan, TakesNoMorePagesThanFullSequencesCanUse) {
  MemoryDemand demand = demand_of(kMiB);
  demand.context_wished = 100;  // 7 pages
  const auto refused = plan_memory(demand, {.available_bytes = 9000 * kMiB});
  ASSERT_FALSE(refused.ok()) << "below the smallest context";
  EXPECT_EQ(refused.error().message, "[--context-length] expected at least 128 tokens, got 100");
  demand.context_wished = 200;  // 13 pages
  const auto plan = plan_memory(demand, {.available_bytes = 9000 * kMiB});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->kv_tokens_max, 13 * 16 * 4);
  EXPECT_EQ(plan->context_tokens, 200);
}

TEST(MemoryPlan, LowersTheContextToWhatFitsWhenNoneWasAskedFor) {
  const auto plan =
      plan_memory(demand_of(0), {.available_bytes = 65 * kMiB, .fraction_static = 1.0});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->context_tokens, 64 * 16);
  EXPECT_EQ(plan->context_fits, 64 * 16);
}

TEST(MemoryPlan, RefusesAContextThatDoesNotFitAndNamesTheLargestThatDoes) {
  MemoryDemand demand = demand_of(10 * kMiB);
  demand.context_wished = 1024;
  EXPECT_TRUE(plan_memory(demand, {.available_bytes = 75 * kMiB, .fraction_static = 1.0}).ok());
  const auto plan = plan_memory(demand, {.available_bytes = 74 * kMiB, .fraction_static = 1.0});
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().message, HasSubstr("\n  weights        10.0 MiB\n"));
  EXPECT_THAT(plan.error().message, HasSubstr("--context-length 1008"));
}

TEST(MemoryPlan, RefusesWeightsThatDoNotFit) {
  const auto plan = plan_memory(demand_of(500 * kMiB), {.available_bytes = 400 * kMiB});
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().message, HasSubstr("no context fits"));
}

TEST(MemoryPlan, KeepsToTheUsersCapAndFraction) {
  const auto capped = plan_memory(
      demand_of(0),
      {.available_bytes = 9000 * kMiB, .max_memory_bytes = 100 * kMiB, .fraction_static = 0.5});
  ASSERT_TRUE(capped.ok());
  EXPECT_EQ(capped->budget_bytes, 50 * kMiB);
  EXPECT_LE(capped->planned_bytes(), capped->budget_bytes);
}

TEST(MemoryPlan, HonoursMaxTotalTokens) {
  MemoryDemand demand = demand_of(0);
  demand.kv_tokens_wished = 300;
  const auto plan = plan_memory(demand, {.available_bytes = 900 * kMiB});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->kv_tokens_max, 304);
  EXPECT_EQ(plan->context_tokens, 304);
}

TEST(MemoryPlan, PaysTwiceForAPoolThatIsCommittedAndKeepsItSmall) {
  MemoryDemand demand = demand_of(0);
  demand.context_model = 8192;
  demand.pool_committed = true;
  demand.pool_copies = 2;
  const auto plan = plan_memory(demand, {.available_bytes = 9000 * kMiB, .fraction_static = 1.0});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->kv_tokens_max, 16384);
  EXPECT_EQ(plan->items.back().bytes, 2 * (16384 / 16 + 1) * kMiB);
  demand.kv_tokens_wished = 20000;
  EXPECT_EQ(plan_memory(demand, {.available_bytes = 9000 * kMiB})->kv_tokens_max, 20000);
  const auto tight = plan_memory(demand, {.available_bytes = 130 * kMiB, .fraction_static = 1.0});
  ASSERT_TRUE(tight.ok());
  EXPECT_EQ(tight->kv_tokens_max, 64 * 16);
  demand.pool_copies = 1;  // appends write in place
  EXPECT_EQ(
      plan_memory(demand, {.available_bytes = 130 * kMiB, .fraction_static = 1.0})->kv_tokens_max,
      129 * 16);
}

TEST(MemoryPlan, RefusesAContextPastTheModels) {
  MemoryDemand demand = demand_of(0);
  demand.context_wished = 4096;
  EXPECT_TRUE(plan_memory(demand, {.available_bytes = 9000 * kMiB}).ok());
  demand.context_wished = 4097;
  EXPECT_FALSE(plan_memory(demand, {.available_bytes = 9000 * kMiB}).ok());
}

TEST(MemoryPlan, CountsActivationsOfTheLargestStep) {
  MemoryDemand demand = demand_of(0);
  demand.hidden_size = 64;
  demand.intermediate_size = 256;
  demand.vocab_tokens = 1000;
  demand.step_tokens_max = 512;
  EXPECT_EQ(activation_bytes(demand), 512 * (12 * 64 + 4 * 256) * 4 + 4 * 3 * 1000 * 4);
  demand.work_measured = kMiB;
  EXPECT_EQ(activation_bytes(demand), 512 * (12 * 64 + 4 * 256) * 4 + 4 * 3 * 1000 * 4);
  demand.work_measured = 64 * kMiB;
  EXPECT_EQ(activation_bytes(demand), 64 * kMiB);
  demand.queued_step_bytes = 10 * kMiB;
  EXPECT_EQ(activation_bytes(demand), 74 * kMiB);
  demand.queued_step_bytes = 70 * kMiB;
  EXPECT_EQ(activation_bytes(demand), 140 * kMiB) << "two of them";
  demand.attention_bytes = 3 * kMiB;
  EXPECT_EQ(activation_bytes(demand), 143 * kMiB) << "beside whatever was measured";
}

TEST(MemoryPlan, CountsTheLogitsOfScoredPositionsAndScoresFewerWhereTheyDoNotFit) {
  MemoryDemand demand = demand_of(0);
  demand.scored_token_bytes = kMiB;
  demand.scored_tokens_wished = 64;
  const auto roomy = plan_memory(demand, {.available_bytes = 9000 * kMiB});
  EXPECT_EQ(roomy->scored_tokens_max, 64);
  EXPECT_EQ(roomy->items[1].bytes, 64 * kMiB);
  const auto tight = plan_memory(demand, {.available_bytes = 80 * kMiB, .fraction_static = 1.0});
  ASSERT_TRUE(tight.ok()) << tight.error().message;
  EXPECT_EQ(tight->scored_tokens_max, 10);
  EXPECT_EQ(tight->items[1].bytes, 10 * kMiB);
  EXPECT_EQ(tight->context_tokens, (80 - 10 - 1) * 16);
  demand.context_model = 64;  // refused or not, one position can always be scored
  const auto smallest = plan_memory(demand, {.available_bytes = 6 * kMiB, .fraction_static = 1.0});
  ASSERT_TRUE(smallest.ok()) << smallest.error().message;
  EXPECT_EQ(smallest->scored_tokens_max, 1);
}

TEST(MemoryPlan, LeavesRoomForOneMoreArrayWhereMlxWaits) {
  MemoryDemand demand = demand_of(0);
  demand.hidden_size = 64;
  demand.intermediate_size = 256;
  demand.vocab_tokens = 100000;
  demand.step_tokens_max = 16;
  demand.scored_token_bytes = 4 * 100000;
  demand.scored_tokens_wished = 20;
  const auto plan = plan_memory(demand, {.available_bytes = 9000 * kMiB});
  ASSERT_TRUE(plan.ok());
  EXPECT_GT(plan->step_bytes_limit, 0);
  EXPECT_LE(plan->step_bytes_limit + int64_t{4} * 100000 * (20 + 4), plan->items[1].bytes);
}

// A decoder with a sliding window in five of six layers, and keys and values of half precision.
MemoryDemand windowed_demand() {
  MemoryDemand demand;
  demand.cache.page_tokens = 16;
  demand.cache.groups.resize(2);
  const int64_t layer_bytes = int64_t{2} * 16 * 1 * 256 * 2;
  demand.cache.groups[0].bytes_per_page = 3 * layer_bytes;
  demand.cache.groups[1].kind = kvcache::GroupKind::window;
  demand.cache.groups[1].window = 512;
  demand.cache.groups[1].bytes_per_page = 15 * layer_bytes;
  demand.step_tokens_max = 512;
  demand.max_running_requests = 16;
  demand.context_model = 32768;
  return demand;
}

TEST(MemoryPlan, GivesWindowsWhatRunsAndAQuarterOfTheTokensForOtherPrefixes) {
  const auto plan = plan_memory(windowed_demand(), {.available_bytes = 64000 * kMiB});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const int32_t full = 16 * 32768 / 16;
  EXPECT_THAT(plan->group_pages, ElementsAre(full + 1, 16 * 33 + 3 * 32 + full / 4 + 1));
  EXPECT_THAT(format_plan(*plan), Contains(HasSubstr("KV pool        1.50 GiB  524288 tokens")));
  EXPECT_THAT(format_plan(*plan), Contains(HasSubstr("KV windows     2.02 GiB  141056 tokens")));
}

TEST(MemoryPlan, GivesWindowsNoMoreThanFullAttentionHas) {
  MemoryDemand demand = windowed_demand();
  demand.kv_tokens_wished = 1024;
  EXPECT_THAT(plan_memory(demand, {.available_bytes = 9000 * kMiB})->group_pages,
              ElementsAre(65, 65));
}

TEST(MemoryPlan, FitsALargerContextWhereMostLayersHaveAWindow) {
  MemoryDemand demand = windowed_demand();
  demand.context_model = 1 << 20;
  const MemorySupply supply{.available_bytes = 1000 * kMiB};
  const int64_t windowed = plan_memory(demand, supply)->context_fits;
  demand.cache.groups[1].kind = kvcache::GroupKind::full;
  EXPECT_GT(windowed, 2 * plan_memory(demand, supply)->context_fits);
}

TEST(MemoryPlan, GivesEachSequenceTwoStatesAndKeepsTwoMore) {
  MemoryDemand demand = demand_of(0);
  demand.cache.groups[1].kind = kvcache::GroupKind::state;
  demand.cache.groups[1].bytes_per_page = kMiB;
  const auto plan = plan_memory(demand, {.available_bytes = 9000 * kMiB});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->group_pages[1], 1 + 2 * 4 + 2 * 4);
  EXPECT_EQ(plan->items.back().name, "states");
  EXPECT_EQ(plan->items.back().holds, "16 states");
  EXPECT_EQ(plan->items.back().bytes, 17 * kMiB);
}

TEST(MemoryPlan, KeepsFewerStatesWhereTheyWouldTakeMoreThanAnEighthOfThePool) {
  MemoryDemand demand = demand_of(0);
  demand.cache.groups[1].kind = kvcache::GroupKind::state;
  demand.cache.groups[1].bytes_per_page = 10 * kMiB;
  const MemorySupply supply{.available_bytes = 400 * kMiB, .fraction_static = 1.0};
  const auto plan = plan_memory(demand, supply);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->group_pages[1], 1 + 2 * 4 + 5);
  EXPECT_LE(plan->planned_bytes(), 400 * kMiB);
}

TEST(MemoryPlan, TellsTheBytesOfATokenWithinTwoPercentOfTheArithmetic) {
  const auto near = [](int64_t bytes, int64_t arithmetic) {
    return std::abs(bytes - arithmetic) * 50 <= arithmetic;
  };
  for (const int32_t page_tokens : {1, 16, 33, 64}) {
    MemoryDemand demand = demand_of(0);
    const int64_t arithmetic = int64_t{30} * 2 * 3 * 64 * 2;  // layers, K and V, heads, size, f16
    demand.cache.page_tokens = page_tokens;
    demand.cache.groups.resize(1);
    demand.cache.groups[0].bytes_per_page = arithmetic * page_tokens;
    const auto plan = plan_memory(demand, {.available_bytes = 9000 * kMiB});
    ASSERT_TRUE(plan.ok());
    EXPECT_TRUE(near(plan->kv_bytes_per_token, arithmetic)) << page_tokens;
    EXPECT_TRUE(near(plan->items.back().bytes / plan->kv_tokens_max, arithmetic)) << page_tokens;
  }
}

// Whatever was planned is enough for one sequence of the promised context, and what is planned
// stays inside the budget.
TEST(MemoryPlan, PromisesNoContextThatTheCacheCannotHold) {
  std::mt19937 random(5);
  const auto pick = [&random](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  int planned = 0;
  for (int round = 0; round < 500; ++round) {
    MemoryDemand demand = windowed_demand();
    demand.cache.page_tokens = pick(1, 64);
    demand.cache.checkpoint_tokens = demand.cache.page_tokens * pick(1, 20);
    demand.cache.groups[1].window = pick(1, 5000);
    demand.cache.groups.resize(static_cast<size_t>(pick(1, 3)));
    if (demand.cache.groups.size() == 3) {
      demand.cache.groups[2].kind = kvcache::GroupKind::state;
      demand.cache.groups[2].bytes_per_page = pick(1, 1 << 20);
    }
    demand.step_tokens_max = pick(1, 4096);
    demand.max_running_requests = pick(1, 64);
    demand.kv_tokens_wished = pick(0, 1) * pick(1, 100000);
    const auto plan = plan_memory(demand, {.available_bytes = pick(1, 2000) * kMiB});
    if (!plan.ok()) {
      continue;
    }
    ++planned;
    EXPECT_LE(plan->planned_bytes(), plan->budget_bytes);
    const kvcache::PagedCache cache(demand.cache, plan->group_pages);
    EXPECT_GE(cache.tokens_max(static_cast<int32_t>(demand.step_tokens_max)), plan->context_tokens);
  }
  EXPECT_GT(planned, 300);
}

TEST(FormatBytes, ChoosesTheUnit) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(37 * kMiB + kMiB / 2), "37.5 MiB");
  EXPECT_EQ(format_bytes(int64_t{200} << 30), "200 GiB");
}

TEST(AvailableMemory, IsSomethingAndNotMoreThanTheMachineHas) {
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LE(available_memory_bytes(), physical_memory_bytes());
}

TEST(ProcessMemory, GrowsWithWhatTheProcessTouches) {
  const int64_t before = occupied_memory_bytes();
  EXPECT_GT(before, 0);
  const std::vector<char> block(64 * kMiB, 'x');
  EXPECT_GE(occupied_memory_bytes(), before + 48 * kMiB);
  EXPECT_EQ(block.back(), 'x');
}

TEST(AvailableMemory, ReadsMeminfo) {
  EXPECT_EQ(parse_meminfo_available("MemTotal:  9 kB\nMemAvailable:   1234 kB\n"), 1234 * 1024);
  EXPECT_EQ(parse_meminfo_available("MemTotal:  9 kB\n"), 0);
  EXPECT_EQ(parse_meminfo_available("MemAvailable:"), 0);
  EXPECT_EQ(parse_meminfo_available("MemAvailable: 99999999999999999999 kB"), 0);
}

}  // namespace
}  // namespace pome::engine
