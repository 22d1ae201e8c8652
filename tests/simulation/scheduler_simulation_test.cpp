#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "fake_device.h"
#include "scheduler/scheduler.h"

// Millions of random arrivals, lengths, cancels, faults, evictions and retractions. Whatever
// happens, each sequence must say what it would have said alone.
namespace pome::simulation {
namespace {

using kvcache::GroupKind;
using scheduler::Ended;
using scheduler::EndReason;
using scheduler::Policy;
using scheduler::Row;
using scheduler::RowResult;
using scheduler::Scheduler;
using scheduler::SchedulerOptions;
using scheduler::SequenceRequest;
using scheduler::StepPlan;

constexpr int32_t kVocabTokens = 40;
constexpr Token kStop = 7;

int64_t setting(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : fallback;
}

struct World {
  SchedulerOptions options = {};
  std::vector<GroupKind> groups = {GroupKind::full};
  int32_t prompt_max = 120;
  int32_t output_max = 60;
  double arrivals = 0.3;  // chance of one more before each step
  double cancels = 0.05;
  double faults = 0.01;
  double shared = 0.7;  // chance that a prompt begins like an earlier one
  double room = 3.0;    // pool over the longest sequence
  bool overlap = true;
};

struct Totals {
  int64_t steps = 0;
  int64_t finished = 0;
  int64_t cached_tokens = 0;
  int64_t retractions = 0;
  int64_t evictions = 0;
};

// What one sequence says alone.
struct Alone {
  SequenceRequest request;
  std::vector<uint64_t> prefixes = {};  // by position, through the last token that is computed
  std::vector<Token> outputs = {};
  size_t said = 0;

  explicit Alone(SequenceRequest r) : request(std::move(r)) {
    uint64_t prefix = kEmptyPrefix;
    for (const Token token : request.prompt) {
      prefixes.push_back(prefix = extend(prefix, token));
    }
    while (static_cast<int32_t>(outputs.size()) < request.max_tokens) {
      outputs.push_back(next_token(prefix, kVocabTokens));
      if (outputs.back() == kStop) {
        break;
      }
      prefixes.push_back(prefix = extend(prefix, outputs.back()));
    }
  }
};

class Simulation {
 public:
  Simulation(uint64_t seed, const World& world) : random_(seed), world_(world) {
    kvcache::CacheSpec spec;
    spec.page_tokens = 1 << pick(0, 4);
    spec.checkpoint_tokens = spec.page_tokens * pick(1, 3);
    std::vector<int32_t> pages;
    const int32_t longest = world.prompt_max + world.output_max;
    for (const GroupKind kind : world.groups) {
      spec.groups.emplace_back();
      spec.groups.back().kind = kind;
      spec.groups.back().window = kind == GroupKind::window ? pick(1, 40) : 0;
      const int32_t need = 2 + longest / spec.page_tokens;
      const int32_t room = pick(0, static_cast<int32_t>(world.room * need));
      pages.push_back(kind == GroupKind::state
                          ? 2 + 2 * world.options.max_running_requests + pick(0, 20)
                          : need + room);
    }
    scheduler_.emplace(world.options, spec, pages);
    device_.emplace(spec, pages, kVocabTokens);
  }

  void run(int64_t steps) {
    for (int64_t step = 0; step < steps && !failed(); ++step) {
      arrive();
      if (chance(world_.cancels)) {
        cancel_one();
      }
      if (chance(0.002)) {
        scheduler_->flush_cache();
      }
      take_step();
    }
    for (int64_t extra = 0; !scheduler_->idle() && !failed(); ++extra) {
      take_step();
      ASSERT_LT(extra, 100000) << "sequences that never end";
    }
    EXPECT_TRUE(failed() || alone_.empty()) << "a sequence was forgotten";
    EXPECT_EQ(scheduler_->stats().tokens_used, 0);
  }

  void add_to(Totals& totals) const {
    totals.steps += steps_;
    totals.finished += finished_;
    totals.cached_tokens += cached_;
    totals.retractions += scheduler_->stats().retracted_total;
    totals.evictions += scheduler_->stats().evicted_tokens_total;
  }

 private:
  struct Flight {
    StepPlan plan;
    std::vector<Token> sampled;
  };

  static bool failed() { return testing::Test::HasFailure(); }
  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  std::vector<Token> some_prompt() {
    std::vector<Token> prompt;
    if (!earlier_.empty() && chance(world_.shared)) {
      prompt = earlier_[static_cast<size_t>(pick(0, static_cast<int32_t>(earlier_.size()) - 1))];
      prompt.resize(static_cast<size_t>(pick(1, static_cast<int32_t>(prompt.size()))));
    }
    const auto length = static_cast<size_t>(pick(1, world_.prompt_max));
    while (prompt.size() < length) {
      prompt.push_back(pick(0, kVocabTokens - 1));
    }
    earlier_.push_back(prompt);
    if (earlier_.size() > 20) {
      earlier_.erase(earlier_.begin() + pick(0, 20));
    }
    return prompt;
  }

  void arrive() {
    while (chance(world_.arrivals)) {
      SequenceRequest request;
      request.sequence = SequenceId{++last_id_};
      request.prompt = some_prompt();
      request.max_tokens = pick(1, world_.output_max);
      request.stop_tokens = {kStop};
      request.priority = pick(-2, 2);
      request.cache_namespace = chance(0.2) ? "other" : "";
      if (chance(0.1)) {
        request.score_from = pick(0, static_cast<int32_t>(request.prompt.size()) - 1);
        request.max_tokens = pick(0, 3);
      }
      const Status status = scheduler_->submit(request);
      if (status.ok()) {
        alone_.emplace(request.sequence, Alone(request));
      } else {
        EXPECT_EQ(status.error().code, ErrorCode::queue_full) << status.error().message;
      }
    }
  }

  void cancel_one() {
    if (alone_.empty()) {
      return;
    }
    auto victim = alone_.begin();
    std::advance(victim, pick(0, static_cast<int32_t>(alone_.size()) - 1));
    ASSERT_TRUE(scheduler_->abort(victim->first).has_value());
    EXPECT_FALSE(scheduler_->abort(victim->first).has_value()) << "a sequence ends once";
    alone_.erase(victim);
    scheduler_->check_integrity();
  }

  void take_step() {
    launch();
    if (world_.overlap && !flights_.empty() && chance(0.9)) {
      launch();
    }
    if (chance(world_.cancels)) {
      cancel_one();
    }
    if (flights_.empty()) {
      EXPECT_TRUE(scheduler_->idle()) << "work is there and nothing runs";
      return;
    }
    const bool newest = chance(0.3);
    if (chance(world_.faults)) {
      fault(newest);
    } else {
      commit();
    }
    scheduler_->check_integrity();
  }

  void launch() {
    if (scheduler_->steps_in_flight() > 1) {
      return;
    }
    const int32_t most = world_.options.max_running_requests;
    const int32_t budget = pick(most, 3 * most);
    StepPlan plan = scheduler_->plan(budget);
    scheduler_->check_integrity();
    if (plan.rows.empty()) {
      return;
    }
    ++steps_;
    check_rows(plan, budget);
    const std::vector<Token> before =
        flights_.empty() ? std::vector<Token>() : flights_.back().sampled;
    std::vector<Token> sampled = device_->launch(plan, before);
    flights_.push_back({std::move(plan), std::move(sampled)});
  }

  void commit() {
    const Flight flight = std::move(flights_.front());
    flights_.erase(flights_.begin());
    std::vector<RowResult> results;
    std::map<SequenceId, EndReason> ends;
    size_t next = 0;
    for (const Row& row : flight.plan.rows) {
      RowResult& result = results.emplace_back();
      result.accepted = row.count;
      if (row.samples) {
        result.sampled = {flight.sampled.at(next++)};
      }
      const auto found = alone_.find(row.sequence);
      if (found == alone_.end()) {
        continue;  // ended while the row was in flight
      }
      Alone& alone = found->second;
      device_->check_reads(row, alone.prefixes);
      const auto end_position = static_cast<size_t>(row.first_position + row.count);
      if (row.samples) {
        ASSERT_LT(alone.said, alone.outputs.size());
        ASSERT_EQ(result.sampled.front(), alone.outputs[alone.said]) << "not what it says alone";
        if (++alone.said == alone.outputs.size()) {
          ends[row.sequence] =
              alone.outputs.back() == kStop ? EndReason::stop_token : EndReason::length;
        }
      } else if (alone.request.max_tokens == 0 && end_position == alone.request.prompt.size()) {
        ends[row.sequence] = EndReason::length;
      }
    }
    for (const Row& row : flight.plan.rows) {
      if (const scheduler::Sequence* one = scheduler_->find(row.sequence); one != nullptr) {
        cached_ += row.first_position == one->cached_tokens ? one->cached_tokens : 0;
      }
    }
    for (const Ended& ended : scheduler_->commit(flight.plan, results)) {
      ASSERT_EQ(ends.count(ended.sequence), 1U) << "ended without a reason";
      EXPECT_EQ(ends[ended.sequence], ended.reason);
      ends.erase(ended.sequence);
      alone_.erase(ended.sequence);
      ++finished_;
    }
    EXPECT_TRUE(ends.empty()) << "should have ended";
  }

  // The newest step throws while it is launched, or the oldest while it is waited for.
  void fault(bool newest) {
    const size_t at = newest ? flights_.size() - 1 : 0;
    const StepPlan plan = flights_[at].plan;
    device_->spoil(plan);
    if (!newest && flights_.size() > 1) {
      device_->spoil(flights_[1].plan);
      scheduler_->retry(flights_[1].plan);
      flights_.pop_back();
    }
    for (const Ended& ended : scheduler_->abandon(plan)) {
      EXPECT_EQ(ended.reason, EndReason::failed);
      EXPECT_EQ(alone_.erase(ended.sequence), 1U);
    }
    flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void check_rows(const StepPlan& plan, int32_t budget) {
    ASSERT_LE(plan.token_count(), budget);
    std::set<SequenceId> sequences;
    std::set<SlotId> slots;
    for (const Row& row : plan.rows) {
      ASSERT_TRUE(sequences.insert(row.sequence).second) << "a sequence has two rows";
      ASSERT_TRUE(slots.insert(row.slot).second) << "a slot has two rows";
      ASSERT_GE(row.count, 1);
      ASSERT_TRUE(alone_.contains(row.sequence)) << "a row of a sequence that ended";
      check_outputs(row, alone_.at(row.sequence).request);
    }
  }

  // Every prompt position from score_from on has its logits at the position before.
  static void check_outputs(const Row& row, const SequenceRequest& request) {
    const int32_t begin = row.outputs.empty() ? row.count : row.outputs.front().begin;
    ASSERT_EQ(row.outputs.size(), begin < row.count ? 1U : 0U);
    ASSERT_TRUE(!row.samples || begin < row.count);
    if (request.score_from < 0) {
      ASSERT_GE(begin, row.count - 1) << "logits that nobody asked for";
    }
  }

  std::mt19937_64 random_;
  const World world_;
  std::optional<Scheduler> scheduler_;
  std::optional<FakeDevice> device_;
  std::map<SequenceId, Alone> alone_;
  std::vector<std::vector<Token>> earlier_;
  std::vector<Flight> flights_;
  uint64_t last_id_ = 0;
  int64_t steps_ = 0;
  int64_t finished_ = 0;
  int64_t cached_ = 0;
};

// Worlds of one kind, one seed after the other, for the seconds that a run has.
Totals simulate(const World& world) {
  using Clock = std::chrono::steady_clock;
  const auto base = static_cast<uint64_t>(
      setting("POME_SIMULATION_SEED", static_cast<int64_t>(std::random_device{}())));
  const int64_t steps = setting("POME_SIMULATION_STEPS", 1500);
  const auto until = Clock::now() + std::chrono::seconds(setting("POME_SIMULATION_SECONDS", 4));
  Totals totals;
  for (uint64_t seed = base; seed == base || Clock::now() < until; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed, world);
    simulation.run(steps);
    simulation.add_to(totals);
    if (testing::Test::HasFailure()) {
      std::printf("[     SEED ] POME_SIMULATION_SEED=%llu POME_SIMULATION_SECONDS=0\n",
                  static_cast<unsigned long long>(seed));
      break;
    }
  }
  std::printf(
      "[     SEED ] from %llu on: %lld steps, %lld sequences, %lld tokens from the cache, "
      "%lld retractions, %lld evictions\n",
      static_cast<unsigned long long>(base), static_cast<long long>(totals.steps),
      static_cast<long long>(totals.finished), static_cast<long long>(totals.cached_tokens),
      static_cast<long long>(totals.retractions), static_cast<long long>(totals.evictions));
  EXPECT_GT(totals.finished, 0);
  return totals;
}

TEST(SchedulerSimulation, SaysWhatEachSequenceSaysAloneUnderMixedLoad) {
  const Totals totals = simulate({});
  EXPECT_GT(totals.cached_tokens, 0);
  EXPECT_GT(totals.evictions, 0);
}

TEST(SchedulerSimulation, SaysTheSameWithFullWindowAndRecurrentLayers) {
  const Totals totals =
      simulate({.groups = {GroupKind::full, GroupKind::window, GroupKind::state}});
  EXPECT_GT(totals.cached_tokens, 0);
}

TEST(SchedulerSimulation, SaysTheSameWhenPagesRunOut) {
  const Totals totals =
      simulate({.options = {.conservativeness = 0.05, .cache = {.copy_pages = true}},
                .groups = {GroupKind::full, GroupKind::window},
                .output_max = 120,
                .arrivals = 0.6,
                .room = 0.7});
  EXPECT_GT(totals.retractions, 0);
}

TEST(SchedulerSimulation, SaysTheSameWithoutOverlapAndWithOneSlot) {
  simulate(
      {.options = {.max_running_requests = 1, .chunk_tokens_max = 5, .cache = {.copy_pages = true}},
       .groups = {GroupKind::full, GroupKind::full},
       .prompt_max = 30,
       .overlap = false});
}

TEST(SchedulerSimulation, SaysTheSameWhenClientsLeaveStepsThrowAndTheQueueOverflows) {
  simulate({.options = {.max_running_requests = 12,
                        .max_queued_requests = 6,
                        .policy = Policy::priority,
                        .cache = {.copy_pages = true}},
            .arrivals = 0.7,
            .cancels = 0.4,
            .faults = 0.2});
}

TEST(SchedulerSimulation, SaysTheSameUnderLongestPrefixMatchAndLfu) {
  simulate({.options = {.policy = Policy::lpm, .cache = {.eviction = kvcache::Eviction::lfu}},
            .arrivals = 0.6});
}

TEST(SchedulerSimulation, SaysTheSameWithoutThePrefixCache) {
  const Totals totals = simulate({.options = {.cache = {.prefix_cache = false}}});
  EXPECT_EQ(totals.cached_tokens, 0);
}

}  // namespace
}  // namespace pome::simulation
