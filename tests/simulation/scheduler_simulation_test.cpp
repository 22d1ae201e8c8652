#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "scheduler/scheduler.h"

namespace pome::scheduler {
namespace {

int64_t setting(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : fallback;
}

struct Load {
  int32_t prompt_max = 200;
  int32_t output_max = 60;
  double arrivals = 0.3;  // chance of one more before each step
  double cancels = 0.05;
  double faults = 0.01;
};

// What the simulated world knows of one sequence, held against each plan.
struct Expected {
  SequenceRequest request;
  int32_t position = 0;  // tokens in the cache
  std::vector<Token> outputs = {};
};

class Simulation {
 public:
  Simulation(uint64_t seed, const SchedulerOptions& options, const Load& load, size_t groups)
      : random_(seed), options_(options), load_(load) {
    kvcache::CacheSpec spec;
    spec.page_tokens = pick(1, 16);
    spec.groups.resize(groups);
    std::vector<int32_t> pages;
    for (size_t g = 0; g < groups; ++g) {
      const int32_t longest = load.prompt_max + load.output_max;
      pages.push_back(2 + longest / spec.page_tokens + pick(0, 3 * longest / spec.page_tokens));
    }
    page_tokens_ = spec.page_tokens;
    scheduler_.emplace(options, spec, pages);
  }

  void run(int64_t steps) {
    for (int64_t step = 0; step < steps; ++step) {
      arrive();
      cancel_one();
      take_step();
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
    while (!scheduler_->idle()) {  // every sequence ends without new arrivals
      take_step();
      if (testing::Test::HasFatalFailure() || ++extra_ > 100000) {
        FAIL() << "sequences that never end";
      }
    }
    EXPECT_TRUE(expected_.empty()) << "a sequence was forgotten";
    EXPECT_EQ(scheduler_->stats().tokens_used, 0);
    EXPECT_GT(finished_, 0);
  }

 private:
  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  void arrive() {
    while (chance(load_.arrivals)) {
      SequenceRequest request;
      request.sequence = SequenceId{++last_id_};
      request.prompt.resize(static_cast<size_t>(pick(1, load_.prompt_max)));
      for (Token& token : request.prompt) {
        token = pick(0, 1000);
      }
      request.max_tokens = pick(1, load_.output_max);
      request.stop_tokens = {7};
      request.priority = pick(-2, 2);
      const Status status = scheduler_->submit(request);
      if (status.ok()) {
        expected_[request.sequence] = {request};
      } else {
        EXPECT_EQ(status.error().code, ErrorCode::queue_full) << status.error().message;
      }
    }
  }

  void cancel_one() {
    if (!expected_.empty() && chance(load_.cancels)) {
      auto victim = expected_.begin();
      std::advance(victim, pick(0, static_cast<int32_t>(expected_.size()) - 1));
      const auto ended = scheduler_->abort(victim->first);
      ASSERT_TRUE(ended.has_value()) << "no step is in flight";
      expected_.erase(victim);
      scheduler_->check_integrity();
    }
  }

  void take_step() {
    const int32_t budget = pick(options_.max_running_requests, 3 * options_.max_running_requests);
    const StepPlan plan = scheduler_->plan(budget);
    scheduler_->check_integrity();
    check_plan(plan, budget);
    if (plan.rows.empty()) {
      EXPECT_TRUE(scheduler_->idle()) << "work is there and nothing runs";
      return;
    }
    if (chance(load_.faults)) {
      for (const Ended& ended : scheduler_->abandon(plan)) {
        EXPECT_EQ(expected_.erase(ended.sequence), 1U);
      }
    } else {
      commit(plan);
    }
    scheduler_->check_integrity();
  }

  void commit(const StepPlan& plan) {
    std::vector<RowResult> results;
    std::set<SequenceId> ends;
    for (const Row& row : plan.rows) {
      RowResult result{row.count, {}};
      Expected& one = expected_.at(row.sequence);
      if (!row.outputs.empty()) {
        const Token token = pick(0, 40);
        result.sampled = {token};
        one.outputs.push_back(token);
        if (token == 7 || static_cast<int32_t>(one.outputs.size()) == one.request.max_tokens) {
          ends.insert(row.sequence);
        }
      }
      results.push_back(result);
    }
    // A client that leaves while the step runs.
    const SequenceId leaver =
        plan.rows[static_cast<size_t>(pick(0, static_cast<int32_t>(plan.rows.size()) - 1))]
            .sequence;
    if (chance(load_.cancels)) {
      EXPECT_FALSE(scheduler_->abort(leaver).has_value());
      scheduler_->check_integrity();
      ends.insert(leaver);
    }
    for (const Ended& ended : scheduler_->commit(plan, results)) {
      EXPECT_EQ(ends.erase(ended.sequence), 1U) << "ended without a reason";
      EXPECT_EQ(expected_.erase(ended.sequence), 1U);
      ++finished_;
    }
    EXPECT_TRUE(ends.empty()) << "should have ended";
  }

  void check_plan(const StepPlan& plan, int32_t budget) {
    ASSERT_LE(plan.token_count(), budget);
    size_t streams = 0;
    for (const auto& [id, one] : expected_) {
      streams += one.outputs.empty() ? 0 : 1;
    }
    std::set<SequenceId> seen;
    std::set<SlotId> slots;
    std::vector<std::set<PageId>> pages;
    size_t decode_rows = 0;
    for (const Row& row : plan.rows) {
      ASSERT_TRUE(seen.insert(row.sequence).second) << "a sequence has two rows";
      ASSERT_TRUE(slots.insert(row.slot).second) << "a slot has two rows";
      ASSERT_TRUE(expected_.contains(row.sequence)) << "a row of a sequence that ended";
      Expected& one = expected_.at(row.sequence);
      ASSERT_EQ(row.first_position, one.position) << "a position was skipped or computed twice";
      const auto& tokens = std::get<HostTokens>(row.input).tokens;
      ASSERT_EQ(static_cast<int32_t>(tokens.size()), row.count);
      for (int32_t i = 0; i < row.count; ++i) {
        ASSERT_EQ(tokens[static_cast<size_t>(i)], token_at(one, one.position + i));
      }
      const auto prompt = static_cast<int32_t>(one.request.prompt.size());
      decode_rows += one.position >= prompt ? 1 : 0;
      one.position += row.count;
      ASSERT_EQ(row.outputs.empty(), one.position < prompt);
      check_pages(row, one.position, pages);
    }
    ASSERT_EQ(decode_rows, streams) << "a running stream was left out of a step";
    for (size_t r = 0; r < decode_rows; ++r) {
      ASSERT_EQ(plan.rows[r].count, 1) << "decode rows come first";
    }
  }

  void check_pages(const Row& row, int32_t positions, std::vector<std::set<PageId>>& taken) {
    taken.resize(row.page_groups.size());
    for (size_t g = 0; g < row.page_groups.size(); ++g) {
      int32_t pages = 0;
      for (const PageRun& run : row.page_groups[g]) {
        for (int32_t i = 0; i < run.count; ++i, ++pages) {
          const PageId page{static_cast<int32_t>(run.first) + i};
          ASSERT_NE(page, PageId{0}) << "the sink is nobody's page";
          ASSERT_TRUE(taken[g].insert(page).second) << "two rows share a page";
        }
      }
      ASSERT_EQ(pages, (positions + page_tokens_ - 1) / page_tokens_);
    }
  }

  static Token token_at(const Expected& one, int32_t position) {
    const auto index = static_cast<size_t>(position);
    const size_t prompt = one.request.prompt.size();
    return index < prompt ? one.request.prompt[index] : one.outputs.at(index - prompt);
  }

  std::mt19937_64 random_;
  SchedulerOptions options_;
  Load load_;
  int32_t page_tokens_ = 1;
  std::optional<Scheduler> scheduler_;
  std::map<SequenceId, Expected> expected_;
  uint64_t last_id_ = 0;
  int64_t finished_ = 0;
  int64_t extra_ = 0;
};

void simulate(const SchedulerOptions& options, const Load& load, size_t groups) {
  const auto base = static_cast<uint64_t>(
      setting("POME_SIMULATION_SEED", static_cast<int64_t>(std::random_device{}())));
  const int64_t steps = setting("POME_SIMULATION_STEPS", 4000);
  SCOPED_TRACE("seed " + std::to_string(base));
  std::printf("[     SEED ] POME_SIMULATION_SEED=%llu\n", static_cast<unsigned long long>(base));
  Simulation(base, options, load, groups).run(steps);
}

TEST(SchedulerSimulation, HoldsItsInvariantsUnderMixedLoad) {
  simulate({}, {}, 1);
}

TEST(SchedulerSimulation, HoldsItsInvariantsWithSeveralCacheGroups) {
  simulate({}, {}, 3);
}

TEST(SchedulerSimulation, HoldsItsInvariantsWhenTheQueueOverflows) {
  simulate({.max_running_requests = 3, .max_queued_requests = 4}, {.arrivals = 0.8}, 1);
}

TEST(SchedulerSimulation, HoldsItsInvariantsWithOneSlot) {
  simulate({.max_running_requests = 1, .chunk_tokens_max = 5}, {.prompt_max = 30}, 2);
}

TEST(SchedulerSimulation, HoldsItsInvariantsWhenClientsLeaveAndStepsThrow) {
  simulate({.max_running_requests = 12, .policy = Policy::priority},
           {.prompt_max = 80, .arrivals = 0.6, .cancels = 0.4, .faults = 0.2}, 1);
}

}  // namespace
}  // namespace pome::scheduler
