#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/step_budget.h"
#include "scheduler/step_plan_json.h"

namespace pome::scheduler {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

kvcache::CacheSpec spec_of(int32_t page_tokens = 4) {
  kvcache::CacheSpec spec;
  spec.page_tokens = page_tokens;
  spec.groups.resize(1);
  return spec;
}

SequenceRequest request_of(uint64_t id, int32_t prompt_tokens, int32_t max_tokens) {
  SequenceRequest request;
  request.sequence = SequenceId{id};
  for (int32_t i = 0; i < prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<Token>(1000 * id) + i);
  }
  request.max_tokens = max_tokens;
  return request;
}

// What a model that always says `token` answers to a plan.
std::vector<RowResult> results_of(const StepPlan& plan, Token token = 50) {
  std::vector<RowResult> results;
  for (const Row& row : plan.rows) {
    results.push_back({row.count, row.samples ? std::vector<Token>{token} : std::vector<Token>{}});
  }
  return results;
}

std::vector<std::pair<uint64_t, int32_t>> shape_of(const StepPlan& plan) {
  std::vector<std::pair<uint64_t, int32_t>> shape;
  for (const Row& row : plan.rows) {
    shape.emplace_back(static_cast<uint64_t>(row.sequence), row.count);
  }
  return shape;
}

void finish_all(Scheduler& scheduler) {
  while (!scheduler.idle()) {
    const StepPlan plan = scheduler.plan(64);
    scheduler.commit(plan, results_of(plan));
  }
}

Scheduler scheduler_of(int32_t pages = 101, SchedulerOptions options = {}) {
  return Scheduler(options, spec_of(), {pages});
}

TEST(Scheduler, CutsAPromptIntoChunksAndSamplesAfterTheLast) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 40, 2)).ok());
  StepPlan plan = scheduler.plan(16);
  EXPECT_THAT(shape_of(plan), ElementsAre(std::pair{1, 16}));
  EXPECT_THAT(plan.rows[0].outputs, IsEmpty());
  scheduler.commit(plan, results_of(plan));
  plan = scheduler.plan(16);
  EXPECT_EQ(plan.rows[0].first_position, 16);
  scheduler.commit(plan, results_of(plan));
  plan = scheduler.plan(16);
  EXPECT_THAT(shape_of(plan), ElementsAre(std::pair{1, 8}));
  ASSERT_EQ(plan.rows[0].outputs.size(), 1U);
  EXPECT_EQ(plan.rows[0].outputs[0].begin, 7);
  scheduler.commit(plan, results_of(plan));
  plan = scheduler.plan(16);
  EXPECT_EQ(std::get<HostTokens>(plan.rows[0].input).tokens, std::vector<Token>{50});
  EXPECT_EQ(plan.rows[0].first_position, 40);
  const auto ended = scheduler.commit(plan, results_of(plan));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].reason, EndReason::length);
  EXPECT_TRUE(scheduler.idle());
  scheduler.check_integrity();
}

TEST(Scheduler, PutsDecodeRowsFirstAndFillsTheRestWithPrefill) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 4, 50)).ok());
  StepPlan plan = scheduler.plan(16);
  scheduler.commit(plan, results_of(plan));
  ASSERT_TRUE(scheduler.submit(request_of(2, 100, 5)).ok());
  plan = scheduler.plan(16);
  EXPECT_THAT(shape_of(plan), ElementsAre(std::pair{1, 1}, std::pair{2, 15}));
}

TEST(Scheduler, GivesTheOldestPromptHalfTheRoomAndTheShortestTheRest) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 200, 5)).ok());
  ASSERT_TRUE(scheduler.submit(request_of(2, 100, 5)).ok());
  ASSERT_TRUE(scheduler.submit(request_of(3, 6, 5)).ok());
  const StepPlan plan = scheduler.plan(32);
  EXPECT_THAT(shape_of(plan), ElementsAre(std::pair{1, 16}, std::pair{2, 10}, std::pair{3, 6}));
}

TEST(Scheduler, SaysWhenAShortPromptSharesTheNextStepWithALongOne) {
  Scheduler scheduler = scheduler_of(400);
  ASSERT_TRUE(scheduler.submit(request_of(1, 20, 5)).ok());
  EXPECT_FALSE(scheduler.short_prompt_next()) << "alone";
  StepPlan plan = scheduler.plan(64);
  scheduler.commit(plan, results_of(plan));
  ASSERT_TRUE(scheduler.submit(request_of(2, 400, 5)).ok());
  plan = scheduler.plan(64);
  scheduler.commit(plan, results_of(plan));
  EXPECT_FALSE(scheduler.short_prompt_next()) << "a stream and a long prompt";
  EXPECT_EQ(scheduler.decode_rows_next(), 0);
  ASSERT_TRUE(scheduler.submit(request_of(3, 20, 5)).ok());
  EXPECT_TRUE(scheduler.short_prompt_next());
  plan = scheduler.plan(64);
  EXPECT_FALSE(scheduler.short_prompt_next()) << "it is in the step that was built";
  scheduler.commit(plan, results_of(plan));
  EXPECT_FALSE(scheduler.short_prompt_next());
}

TEST(Scheduler, CountsTheRowsOfANextStepOfStreamsAlone) {
  Scheduler scheduler = scheduler_of();
  EXPECT_EQ(scheduler.decode_rows_next(), 0);
  ASSERT_TRUE(scheduler.submit(request_of(1, 8, 3)).ok());
  ASSERT_TRUE(scheduler.submit(request_of(2, 8, 1)).ok());
  EXPECT_EQ(scheduler.decode_rows_next(), 0) << "they wait";
  StepPlan plan = scheduler.plan(64);
  EXPECT_EQ(scheduler.decode_rows_next(), 1) << "the second ends with the step in flight";
  scheduler.commit(plan, results_of(plan));
  EXPECT_EQ(scheduler.decode_rows_next(), 1);
}

TEST(Scheduler, GivesAPromptThatIsAloneTheWholeBudget) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 200, 5)).ok());
  EXPECT_EQ(scheduler.plan(64).token_count(), 64);
}

TEST(Scheduler, TellsTheTokenThatEndedASequence) {
  Scheduler scheduler = scheduler_of();
  SequenceRequest request = request_of(1, 4, 50);
  request.stop_tokens = {7, 9};
  ASSERT_TRUE(scheduler.submit(request).ok());
  const StepPlan plan = scheduler.plan(16);
  const auto ended = scheduler.commit(plan, results_of(plan, 9));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].reason, EndReason::stop_token);
  EXPECT_EQ(ended[0].matched_stop, 9);
}

TEST(Scheduler, WaitsUntilThePagesForPromptAndExpectedOutputAreThere) {
  Scheduler scheduler = scheduler_of(11);  // 40 positions
  ASSERT_TRUE(scheduler.submit(request_of(1, 20, 14)).ok());
  ASSERT_TRUE(scheduler.submit(request_of(2, 20, 10)).ok());
  StepPlan plan = scheduler.plan(64);
  EXPECT_THAT(shape_of(plan), ElementsAre(std::pair{1, 20}));
  EXPECT_EQ(scheduler.stats().waiting, 1);
  scheduler.commit(plan, results_of(plan));
  EXPECT_EQ(scheduler.decode_rows_next(), 1) << "who does not fit is no reason to wait for a step";
  ASSERT_TRUE(scheduler.abort(SequenceId{1}).has_value());
  EXPECT_EQ(scheduler.decode_rows_next(), 0) << "now it fits";
  plan = scheduler.plan(64);
  EXPECT_THAT(shape_of(plan), ElementsAre(std::pair{2, 20}));
}

TEST(Scheduler, ARepeatedPromptComputesItsLastPageAlone) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 22, 1)).ok());
  finish_all(scheduler);
  SequenceRequest again = request_of(1, 22, 1);
  again.sequence = SequenceId{2};
  ASSERT_TRUE(scheduler.submit(again).ok());
  const StepPlan plan = scheduler.plan(64);
  EXPECT_EQ(plan.rows[0].first_position, 20);
  EXPECT_EQ(plan.rows[0].count, 2);
  EXPECT_EQ(scheduler.find(SequenceId{2})->cached_tokens, 20);
}

TEST(Scheduler, TheLastPromptTokenIsNeverTakenFromTheCache) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 20, 5)).ok());
  finish_all(scheduler);
  SequenceRequest again = request_of(1, 20, 1);
  again.sequence = SequenceId{2};
  ASSERT_TRUE(scheduler.submit(again).ok());
  EXPECT_EQ(scheduler.plan(64).rows[0].first_position, 16);
}

TEST(Scheduler, AnotherNamespaceSharesNothing) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 20, 1)).ok());
  finish_all(scheduler);
  SequenceRequest again = request_of(1, 20, 1);
  again.sequence = SequenceId{2};
  again.cache_namespace = "salt";
  ASSERT_TRUE(scheduler.submit(again).ok());
  EXPECT_EQ(scheduler.plan(64).rows[0].first_position, 0);
}

TEST(Scheduler, PromptsInPrefillWithACommonPrefixComputeItOnce) {
  Scheduler scheduler = scheduler_of();
  for (uint64_t id = 1; id <= 4; ++id) {
    SequenceRequest request = request_of(9, 40, 2);
    request.sequence = SequenceId{id};
    ASSERT_TRUE(scheduler.submit(request).ok());
  }
  StepPlan plan = scheduler.plan(64);
  EXPECT_THAT(shape_of(plan), ElementsAre(std::pair{1, 40}));
  scheduler.commit(plan, results_of(plan));
  plan = scheduler.plan(64);
  EXPECT_THAT(shape_of(plan),
              ElementsAre(std::pair{1, 1}, std::pair{2, 4}, std::pair{3, 4}, std::pair{4, 4}));
}

TEST(Scheduler, APlanBehindAStepInFlightTakesItsTokensFromThere) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 8, 3)).ok());
  ASSERT_TRUE(scheduler.submit(request_of(2, 8, 3)).ok());
  const StepPlan first = scheduler.plan(64);
  const StepPlan second = scheduler.plan(64);
  ASSERT_EQ(second.rows.size(), 2U);
  EXPECT_EQ(std::get<FromStepInFlight>(second.rows[0].input).output, 0);
  EXPECT_EQ(std::get<FromStepInFlight>(second.rows[1].input).output, 1);
  EXPECT_EQ(second.rows[1].first_position, 8);
  scheduler.commit(first, results_of(first));
  const StepPlan third = scheduler.plan(64);
  EXPECT_EQ(third.rows[0].first_position, 9);
  scheduler.commit(second, results_of(second));
  EXPECT_THAT(scheduler.plan(64).rows, IsEmpty()) << "their last tokens are in flight";
  EXPECT_EQ(scheduler.commit(third, results_of(third)).size(), 2U);
  EXPECT_TRUE(scheduler.idle());
  scheduler.check_integrity();
}

TEST(Scheduler, AStopSeenOneStepLateDropsTheExtraToken) {
  Scheduler scheduler = scheduler_of();
  SequenceRequest request = request_of(1, 8, 30);
  request.stop_tokens = {7};
  ASSERT_TRUE(scheduler.submit(request).ok());
  const StepPlan first = scheduler.plan(64);
  const StepPlan second = scheduler.plan(64);
  EXPECT_EQ(scheduler.commit(first, results_of(first, 7)).size(), 1U);
  EXPECT_FALSE(scheduler.idle()) << "its row is in flight";
  EXPECT_THAT(scheduler.plan(64).rows, IsEmpty());
  EXPECT_THAT(scheduler.commit(second, results_of(second, 8)), IsEmpty());
  EXPECT_TRUE(scheduler.idle());
  scheduler.check_integrity();
}

TEST(Scheduler, TheSequenceWithTheFewestOutputsGivesUpItsPagesAndGoesOnLater) {
  Scheduler scheduler = scheduler_of(9, {.conservativeness = 0.01});  // 32 positions
  ASSERT_TRUE(scheduler.submit(request_of(1, 8, 20)).ok());
  StepPlan plan = scheduler.plan(64);
  scheduler.commit(plan, results_of(plan, 51));
  ASSERT_TRUE(scheduler.submit(request_of(2, 8, 20)).ok());
  std::vector<Token> said;
  while (!scheduler.idle()) {
    plan = scheduler.plan(64);
    std::vector<RowResult> results = results_of(plan, 51);
    for (size_t r = 0; r < plan.rows.size(); ++r) {
      if (plan.rows[r].sequence == SequenceId{2} && plan.rows[r].samples) {
        said.push_back(results[r].sampled[0] = 60 + static_cast<Token>(said.size()));
      }
    }
    scheduler.commit(plan, results);
    scheduler.check_integrity();
  }
  EXPECT_EQ(scheduler.stats().retracted_total, 1);
  EXPECT_EQ(said.size(), 20U) << "no output is lost or sampled twice";
}

TEST(Scheduler, AShortPromptTakesTheReserveThatLongOnesLeave) {
  Scheduler scheduler = scheduler_of(2001, {.max_running_requests = 4});
  for (uint64_t id = 1; id <= 6; ++id) {
    ASSERT_TRUE(scheduler.submit(request_of(id, 600, 5)).ok());
  }
  ASSERT_TRUE(scheduler.submit(request_of(7, 20, 5)).ok());
  const StepPlan plan = scheduler.plan(128);
  EXPECT_EQ(scheduler.stats().running, 4);
  EXPECT_THAT(shape_of(plan), Contains(std::pair<uint64_t, int32_t>{7, 20}));
}

TEST(Scheduler, ALongPromptThatIsCachedButForItsEndIsShort) {
  Scheduler scheduler = scheduler_of(2001, {.max_running_requests = 4});
  SequenceRequest cached = request_of(9, 600, 1);
  ASSERT_TRUE(scheduler.submit(cached).ok());
  finish_all(scheduler);
  for (uint64_t id = 1; id <= 4; ++id) {  // one slot is not for long prompts
    ASSERT_TRUE(scheduler.submit(request_of(id, 600, 900)).ok());
  }
  cached.sequence = SequenceId{5};
  cached.prompt.insert(cached.prompt.end(), {7, 7, 7, 7, 7, 7, 7, 7});
  ASSERT_TRUE(scheduler.submit(cached).ok());
  for (int step = 0; step < 16; ++step) {
    const StepPlan plan = scheduler.plan(1000);
    scheduler.commit(plan, results_of(plan));
  }
  EXPECT_EQ(scheduler.find(SequenceId{4})->admission, 0);
  EXPECT_EQ(scheduler.find(SequenceId{5}), nullptr) << "has not ended";
}

TEST(Scheduler, ABlockedPromptIsNotOvertakenForEver) {
  Scheduler scheduler = scheduler_of(2001, {.max_running_requests = 4, .max_queued_requests = 999});
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(scheduler.submit(request_of(id, 600, 900)).ok());
  }
  for (uint64_t id = 10; id < 210; ++id) {
    ASSERT_TRUE(scheduler.submit(request_of(id, 4, 1)).ok());
  }
  for (int step = 0; step < 150; ++step) {
    const StepPlan plan = scheduler.plan(1000);
    scheduler.commit(plan, results_of(plan));
  }
  EXPECT_EQ(scheduler.find(SequenceId{4})->overtaken, 64);
  EXPECT_GT(scheduler.stats().waiting, 100);
}

TEST(Scheduler, ALowPriorityIsOvertakenOnlySoOften) {
  Scheduler scheduler = scheduler_of(
      2001, {.max_running_requests = 1, .max_queued_requests = 999, .policy = Policy::priority});
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(scheduler.submit(request_of(id, 4, 2)).ok());  // priority 0
  }
  int steps = 0;
  for (uint64_t id = 10; scheduler.find(SequenceId{2}) != nullptr && steps < 1000; ++id, ++steps) {
    SequenceRequest request = request_of(id, 4, 1);
    request.priority = 5;
    ASSERT_TRUE(scheduler.submit(request).ok());
    const StepPlan plan = scheduler.plan(16);
    scheduler.commit(plan, results_of(plan));
  }
  EXPECT_GT(steps, 64);
  EXPECT_LT(steps, 200);
}

TEST(Scheduler, TheLongestCachedPrefixGoesFirstUnderThatPolicy) {
  Scheduler scheduler = scheduler_of(101, {.max_running_requests = 1, .policy = Policy::lpm});
  ASSERT_TRUE(scheduler.submit(request_of(1, 20, 1)).ok());
  finish_all(scheduler);
  ASSERT_TRUE(scheduler.submit(request_of(2, 20, 1)).ok());
  SequenceRequest again = request_of(1, 20, 1);
  again.sequence = SequenceId{3};
  ASSERT_TRUE(scheduler.submit(again).ok());
  EXPECT_EQ(scheduler.plan(64).rows.at(0).sequence, SequenceId{3});
}

TEST(Scheduler, AScoredPromptLeavesTheLogitsBeforeEachScoredToken) {
  Scheduler scheduler = scheduler_of();
  SequenceRequest request = request_of(1, 20, 0);
  request.score_from = 6;
  ASSERT_TRUE(scheduler.submit(request).ok());
  StepPlan plan = scheduler.plan(16);
  ASSERT_EQ(plan.rows[0].outputs.size(), 1U);
  EXPECT_EQ(plan.rows[0].outputs[0].begin, 5);
  EXPECT_FALSE(plan.rows[0].samples);
  EXPECT_THAT(scheduler.commit(plan, results_of(plan)), IsEmpty());
  plan = scheduler.plan(16);
  EXPECT_EQ(plan.rows[0].outputs.at(0).begin, 0);
  const auto ended = scheduler.commit(plan, results_of(plan));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].reason, EndReason::length);
}

TEST(Scheduler, AStepScoresNoMorePositionsThanItMay) {
  for (const int32_t most : {1, 5, 16}) {
    Scheduler scheduler = scheduler_of(101, {.scored_tokens_max = most});
    for (uint64_t id = 1; id <= 4; ++id) {
      SequenceRequest request = request_of(id, 20, 2);
      request.score_from = static_cast<int32_t>(id * 3) - 3;
      ASSERT_TRUE(scheduler.submit(request).ok());
    }
    int32_t largest = 0;
    for (int steps = 0; !scheduler.idle(); ++steps) {
      ASSERT_LT(steps, 200) << "they move";
      const StepPlan plan = scheduler.plan(32);
      int32_t scored = 0;
      for (const Row& row : plan.rows) {
        const int32_t outputs = row.outputs.empty() ? 0 : row.count - row.outputs[0].begin;
        scored += outputs - (row.samples ? 1 : 0);
      }
      EXPECT_LE(scored, most);
      largest = std::max(largest, scored);
      scheduler.commit(plan, results_of(plan));
    }
    EXPECT_EQ(largest, most);
  }
}

TEST(Scheduler, AScoredPromptTakesFromTheCacheOnlyWhatNeedsNoLogits) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 20, 1)).ok());
  finish_all(scheduler);
  SequenceRequest again = request_of(1, 20, 1);
  again.sequence = SequenceId{2};
  again.score_from = 10;
  ASSERT_TRUE(scheduler.submit(again).ok());
  const StepPlan plan = scheduler.plan(64);
  EXPECT_EQ(plan.rows[0].first_position, 8);
  EXPECT_EQ(plan.rows[0].outputs.at(0).begin, 1);
}

TEST(Scheduler, RefusesWhatCanNeverFitWithTheArithmetic) {
  Scheduler scheduler = scheduler_of(11);
  EXPECT_TRUE(scheduler.submit(request_of(1, 30, 10)).ok());
  const Status refused = scheduler.submit(request_of(2, 30, 11));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("30 + max_tokens 11 = 41"));
  EXPECT_THAT(refused.error().message, HasSubstr("holds 40"));
}

TEST(Scheduler, TakesAFullQueueAndRefusesOneMore) {
  Scheduler scheduler = scheduler_of(101, {.max_running_requests = 1, .max_queued_requests = 2});
  for (uint64_t id = 1; id <= 3; ++id) {
    EXPECT_TRUE(scheduler.submit(request_of(id, 4, 4)).ok());
  }
  const Status refused = scheduler.submit(request_of(4, 4, 4));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::queue_full);
}

TEST(Scheduler, OneThatEndedTakesNoPlaceWhileItsStepIsInFlight) {
  Scheduler scheduler = scheduler_of(101, {.max_running_requests = 1, .max_queued_requests = 0});
  ASSERT_TRUE(scheduler.submit(request_of(1, 4, 4)).ok());
  const StepPlan plan = scheduler.plan(16);
  EXPECT_FALSE(scheduler.submit(request_of(2, 4, 4)).ok());
  ASSERT_TRUE(scheduler.abort(SequenceId{1}).has_value());
  EXPECT_TRUE(scheduler.submit(request_of(3, 4, 4)).ok());
  scheduler.commit(plan, results_of(plan));
  EXPECT_EQ(scheduler.plan(16).rows.at(0).sequence, SequenceId{3});
}

TEST(Scheduler, AdmitsTheLargestPriorityFirstUnderThatPolicy) {
  Scheduler scheduler = scheduler_of(101, {.max_running_requests = 1, .policy = Policy::priority});
  for (const auto& [id, priority] : {std::pair{1, 0}, {2, 5}, {3, 5}}) {
    SequenceRequest request = request_of(static_cast<uint64_t>(id), 4, 1);
    request.priority = priority;
    ASSERT_TRUE(scheduler.submit(request).ok());
  }
  std::vector<uint64_t> order;
  while (!scheduler.idle()) {
    const StepPlan plan = scheduler.plan(16);
    order.push_back(static_cast<uint64_t>(plan.rows.at(0).sequence));
    scheduler.commit(plan, results_of(plan));
  }
  EXPECT_THAT(order, ElementsAre(2, 3, 1));
}

TEST(Scheduler, AnAbortInPrefillGivesEverythingBackOnceItsStepIsOver) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 100, 5)).ok());
  const StepPlan plan = scheduler.plan(16);
  const auto ended = scheduler.abort(SequenceId{1});
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->reason, EndReason::aborted);
  EXPECT_FALSE(scheduler.idle()) << "its pages are in use by the step";
  scheduler.check_integrity();
  EXPECT_THAT(scheduler.commit(plan, results_of(plan)), IsEmpty());
  EXPECT_EQ(scheduler.stats().tokens_used, 0);
  EXPECT_TRUE(scheduler.idle());
  scheduler.check_integrity();
}

TEST(Scheduler, AStepBehindOneThatFailedRunsAgain) {
  Scheduler scheduler = scheduler_of(101, {.max_running_requests = 2});
  ASSERT_TRUE(scheduler.submit(request_of(1, 8, 4)).ok());
  const StepPlan first = scheduler.plan(16);
  ASSERT_TRUE(scheduler.submit(request_of(2, 8, 4)).ok());
  const StepPlan second = scheduler.plan(16);
  ASSERT_EQ(second.rows.size(), 2U);
  scheduler.retry(second);
  const auto ended = scheduler.abandon(first);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].sequence, SequenceId{1});
  scheduler.check_integrity();
  EXPECT_THAT(shape_of(scheduler.plan(16)), ElementsAre(std::pair{2, 8}));
}

TEST(Scheduler, AStepThatThrewEndsItsSequencesAndNoOthers) {
  Scheduler scheduler = scheduler_of(101, {.max_running_requests = 2});
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(scheduler.submit(request_of(id, 4, 4)).ok());
  }
  const StepPlan plan = scheduler.plan(16);
  const auto ended = scheduler.abandon(plan);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].reason, EndReason::failed);
  scheduler.check_integrity();
  EXPECT_THAT(shape_of(scheduler.plan(16)), ElementsAre(std::pair{3, 4}));
}

TEST(Scheduler, PageTablesCoverEachRowsPositionsInRuns) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 9, 9)).ok());
  const StepPlan plan = scheduler.plan(16);
  ASSERT_EQ(plan.rows[0].page_groups.size(), 1U);
  const std::vector<kvcache::PageRun>& runs = plan.rows[0].page_groups[0].runs;
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].first, PageId{1});
  EXPECT_EQ(runs[0].count, 3);
}

TEST(StepBudget, FollowsTheMeasuredRateWithinItsBounds) {
  using std::chrono::milliseconds;
  StepBudget budget({});
  EXPECT_EQ(budget.tokens(false), 32) << "nothing measured yet";
  budget.observe(100, milliseconds(100));  // 1000 tokens a second: 180 in 180 ms
  EXPECT_EQ(budget.tokens(false), 176);
  EXPECT_EQ(budget.tokens(true), 88);
  budget.observe(4, milliseconds(100));  // a decode step teaches nothing
  EXPECT_EQ(budget.tokens(false), 176);
  for (int i = 0; i < 50; ++i) {
    budget.observe(20000, milliseconds(100));
  }
  EXPECT_EQ(budget.tokens(false), 2048);
  EXPECT_EQ(StepBudget({.tokens_fixed = 77}).tokens(true), 77);
}

TEST(StepPlanJson, ComesBackAsItWas) {
  StepPlan plan;
  plan.step = 12;
  plan.rows.resize(3);
  plan.rows[0] = {.sequence = SequenceId{9},
                  .slot = SlotId{2},
                  .first_position = 5,
                  .count = 2,
                  .input = HostTokens{{4, 5}},
                  .outputs = {{1, OutputKind::logits}},
                  .samples = true,
                  .tree_parents = {-1, 0},
                  .page_groups = {{0, {{PageId{3}, 2}, {PageId{9}, 1}}}, {2, {}}},
                  .copies = {{.group = 0, .from = PageId{3}, .to = PageId{9}}},
                  .state_in = SlotId{1},
                  .state_out = SlotId{4}};
  plan.rows[1].sequence = SequenceId{~uint64_t{0}};
  plan.rows[1].count = 1;
  plan.rows[1].input = FromStepInFlight{3};
  plan.rows[2].count = 4;
  plan.rows[2].input = EmbeddingSpan{-7, 2};
  const json::object written = to_json(plan);
  const auto parsed = parse_json(to_string(written));
  ASSERT_TRUE(parsed.ok());
  const auto read = step_plan_from_json(*parsed);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_string(to_json(*read)), to_string(written));
  EXPECT_EQ(read->rows[0].page_groups[0].runs[1].first, PageId{9});
  EXPECT_TRUE(read->rows[0].samples);
  EXPECT_EQ(read->rows[0].page_groups[1].first_block, 2);
  ASSERT_EQ(read->rows[0].copies.size(), 1U);
  EXPECT_EQ(read->rows[0].copies[0].to, PageId{9});
}

TEST(StepPlanJson, RefusesWhatIsNotAPlan) {
  for (const char* text : {"[]", "{}", R"({"step":-1,"rows":[]})", R"({"step":1,"rows":[{}]})",
                           R"({"step":1,"rows":[{"sequence":1,"slot":0,"first_position":0,"count":0,
            "input":{"tokens":[]},"outputs":[],"samples":false,"pages":[]}]})",
                           R"({"step":1,"rows":[{"sequence":1,"slot":0,"first_position":0,"count":1,
            "input":{"tokens":[1]},"outputs":[[1,1]],"samples":false,"pages":[]}]})",
                           R"({"step":1,"rows":[{"sequence":1,"slot":0,"first_position":0,"count":1,
            "input":{"tokens":[1e99]},"outputs":[],"samples":false,"pages":[]}]})"}) {
    const auto parsed = parse_json(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_FALSE(step_plan_from_json(*parsed).ok()) << text;
  }
}

}  // namespace
}  // namespace pome::scheduler
