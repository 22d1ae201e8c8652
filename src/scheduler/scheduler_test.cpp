#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/step_budget.h"
#include "scheduler/step_plan_json.h"

namespace pome::scheduler {
namespace {

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
    request.prompt.push_back(i);
  }
  request.max_tokens = max_tokens;
  return request;
}

// What a model that always says `token` answers to a plan.
std::vector<RowResult> results_of(const StepPlan& plan, Token token = 50) {
  std::vector<RowResult> results;
  for (const Row& row : plan.rows) {
    results.push_back(
        {row.count, row.outputs.empty() ? std::vector<Token>{} : std::vector<Token>{token}});
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

TEST(Scheduler, WaitsUntilThePagesForPromptAndOutputAreThere) {
  Scheduler scheduler = scheduler_of(11);  // 40 positions
  ASSERT_TRUE(scheduler.submit(request_of(1, 10, 14)).ok());
  ASSERT_TRUE(scheduler.submit(request_of(2, 10, 10)).ok());
  StepPlan plan = scheduler.plan(64);
  EXPECT_THAT(shape_of(plan), ElementsAre(std::pair{1, 10}));
  EXPECT_EQ(scheduler.stats().waiting, 1);
  scheduler.commit(plan, results_of(plan));
  ASSERT_TRUE(scheduler.abort(SequenceId{1}).has_value());
  plan = scheduler.plan(64);
  EXPECT_THAT(shape_of(plan), ElementsAre(std::pair{2, 10}));
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

TEST(Scheduler, AnAbortInPrefillGivesEverythingBack) {
  Scheduler scheduler = scheduler_of();
  ASSERT_TRUE(scheduler.submit(request_of(1, 100, 5)).ok());
  const StepPlan plan = scheduler.plan(16);
  EXPECT_FALSE(scheduler.abort(SequenceId{1}).has_value()) << "its pages are in use by the step";
  scheduler.check_integrity();
  const auto ended = scheduler.commit(plan, results_of(plan));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].reason, EndReason::aborted);
  EXPECT_EQ(scheduler.stats().tokens_used, 0);
  EXPECT_TRUE(scheduler.idle());
  scheduler.check_integrity();
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
  const std::vector<PageRun>& runs = plan.rows[0].page_groups[0];
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].first, PageId{1});
  EXPECT_EQ(runs[0].count, 3);
}

TEST(StepBudget, FollowsTheMeasuredRateWithinItsBounds) {
  using std::chrono::milliseconds;
  StepBudget budget({});
  EXPECT_EQ(budget.tokens(true), 32) << "nothing measured yet";
  budget.observe(100, milliseconds(100));  // 1000 tokens a second: 150 in 150 ms
  EXPECT_EQ(budget.tokens(true), 128);
  EXPECT_EQ(budget.tokens(false), 576);
  budget.observe(4, milliseconds(100));  // a decode step teaches nothing
  EXPECT_EQ(budget.tokens(true), 128);
  for (int i = 0; i < 50; ++i) {
    budget.observe(20000, milliseconds(100));
  }
  EXPECT_EQ(budget.tokens(true), 2048);
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
                  .tree_parents = {-1, 0},
                  .page_groups = {{{PageId{3}, 2}, {PageId{9}, 1}}, {}},
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
  EXPECT_EQ(read->rows[0].page_groups[0][1].first, PageId{9});
}

TEST(StepPlanJson, RefusesWhatIsNotAPlan) {
  for (const char* text : {"[]", "{}", R"({"step":-1,"rows":[]})", R"({"step":1,"rows":[{}]})",
                           R"({"step":1,"rows":[{"sequence":1,"slot":0,"first_position":0,"count":0,
            "input":{"tokens":[]},"outputs":[],"pages":[]}]})",
                           R"({"step":1,"rows":[{"sequence":1,"slot":0,"first_position":0,"count":1,
            "input":{"tokens":[1]},"outputs":[[1,1]],"pages":[]}]})",
                           R"({"step":1,"rows":[{"sequence":1,"slot":0,"first_position":0,"count":1,
            "input":{"tokens":[1e99]},"outputs":[],"pages":[[[1]]]}]})"}) {
    const auto parsed = parse_json(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_FALSE(step_plan_from_json(*parsed).ok()) << text;
  }
}

}  // namespace
}  // namespace pome::scheduler
