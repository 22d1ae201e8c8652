#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <deque>
#include <optional>
#include <random>

#include "base/check.h"
#include "client.h"
#include "scenarios.h"
#include "scheduler/scheduler.h"

namespace pome::bench {
namespace {

using kvcache::CacheGroup;
using kvcache::GroupKind;
using scheduler::RowResult;
using scheduler::Scheduler;
using scheduler::StepPlan;

constexpr int32_t kRows = 64;
constexpr int32_t kPageTokens = 16;
constexpr int32_t kWindowTokens = 512;
constexpr int32_t kPromptTokensMin = 32;
constexpr int32_t kPromptTokensMax = 4000;
constexpr int32_t kOutputTokensMin = 64;
constexpr int32_t kOutputTokensMax = 1024;
constexpr int32_t kSharedTokens = 512;  // a system prompt that every second request begins with
constexpr int32_t kStepTokens = 512;
constexpr int32_t kVocabTokens = 50000;
constexpr int32_t kStepsWarm = 500;
constexpr int32_t kStepsCounted = 1000;
constexpr double kStepUs = 50.0;

// Of this thread alone: what else the machine does is not the scheduler's work.
double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

struct World {
  std::string name;
  std::vector<CacheGroup> groups;
  int32_t slots = kRows + kRows / 7;  // some are kept for short prompts
  int32_t waiting = 0;                // requests that are kept waiting
  bool steady = false;                // nobody joins or leaves: 64 rows in each step
  int64_t pool_tokens = 0;            // of the full group
};

struct Work {
  std::vector<double> us = {};  // plan and commit, of each step with at least 64 rows
  int64_t steps = 0;
};

// Steps without a model, one in flight as the engine has it: the next is planned before the one
// before is committed.
class Steps {
 public:
  Steps(const World& world, uint32_t seed) : world_(world), random_(seed) {
    kvcache::CacheSpec spec{.page_tokens = kPageTokens, .groups = world.groups};
    const auto pages = static_cast<int32_t>(world.pool_tokens / kPageTokens);
    scheduler_.emplace(scheduler::SchedulerOptions{.max_running_requests = world.slots,
                                                   .max_queued_requests = 4096,
                                                   .chunk_tokens_max = kStepTokens},
                       spec, std::vector<int32_t>(world.groups.size(), pages));
    shared_ = made_up_prompt(kSharedTokens, seed, kVocabTokens);
  }

  Work run() {
    for (int32_t i = 0; i < kStepsWarm; ++i) {
      step();
    }
    Work work;
    while (static_cast<int32_t>(work.us.size()) < kStepsCounted) {
      CHECK(++work.steps < 100 * kStepsCounted, "steps have 64 rows");
      const auto [us, rows] = step();
      if (rows >= kRows) {
        work.us.push_back(us);
      }
    }
    return work;
  }

 private:
  struct Counted {
    double us = 0.0;
    size_t rows = 0;
  };

  void arrive() {
    const scheduler::SchedulerStats stats = scheduler_->stats();
    const int32_t wanted = kRows + world_.waiting - stats.running - stats.waiting;
    for (int32_t i = 0; i < wanted; ++i) {
      scheduler::SequenceRequest request;
      request.sequence = SequenceId{++last_id_};
      request.prompt = made_up_prompt(length(kPromptTokensMin, kPromptTokensMax),
                                      static_cast<uint32_t>(random_()), kVocabTokens);
      if (last_id_ % 2 == 0) {
        request.prompt.insert(request.prompt.begin(), shared_.begin(), shared_.end());
      }
      request.max_tokens = world_.steady ? kStepsWarm + 100 * kStepsCounted
                                         : length(kOutputTokensMin, kOutputTokensMax);
      CHECK(scheduler_->submit(std::move(request)).ok(), "a request of this shape fits");
    }
  }

  // Short ones are as frequent as long ones.
  int32_t length(int32_t low, int32_t high) {
    std::uniform_real_distribution<double> exponent(std::log(low), std::log(high));
    return static_cast<int32_t>(std::exp(exponent(random_)));
  }

  Counted step() {
    arrive();
    double us = -thread_us();
    StepPlan plan = scheduler_->plan(kStepTokens);
    us += thread_us();
    flights_.push_back(std::move(plan));
    if (flights_.size() < 2) {
      return {};
    }
    const StepPlan oldest = std::move(flights_.front());
    flights_.pop_front();
    std::vector<RowResult> results;
    for (const scheduler::Row& row : oldest.rows) {
      RowResult& result = results.emplace_back();
      result.accepted = row.count;
      if (row.samples) {
        result.sampled = {static_cast<Token>(random_() % kVocabTokens)};
      }
    }
    us -= thread_us();
    scheduler_->commit(oldest, results);
    us += thread_us();
    return {.us = us, .rows = oldest.rows.size()};
  }

  const World world_;
  std::mt19937 random_;
  std::optional<Scheduler> scheduler_;
  std::vector<Token> shared_;
  std::deque<StepPlan> flights_;
  uint64_t last_id_ = 0;
};

std::vector<World> worlds() {
  const CacheGroup full{.kind = GroupKind::full, .layers = {0}};
  const CacheGroup window{.kind = GroupKind::window, .window = kWindowTokens, .layers = {1}};
  std::vector<World> all;
  for (const auto& [name, groups] :
       {std::pair<std::string, std::vector<CacheGroup>>{"full", {full}},
        {"full + window", {full, window}}}) {
    all.push_back({.name = name + ", 64 streams",
                   .groups = groups,
                   .steady = true,
                   .pool_tokens = 2'000'000});
    all.push_back({.name = name + ", requests come and go",
                   .groups = groups,
                   .waiting = 32,
                   .pool_tokens = 400'000});
    all.push_back({.name = name + ", 128 wait for pages",
                   .groups = groups,
                   .slots = 2 * kRows,
                   .waiting = 192,
                   .pool_tokens = 90'000});
  }
  return all;
}

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

}  // namespace

Result<Measurements> scheduler_work(const ScenarioOptions& options) {
  Measurements all;
  for (const World& world : worlds()) {
    Measurement work{
        .name = "plan + commit, " + world.name, .unit = "us (mean)", .bar = Bar{.value = kStepUs}};
    Measurement slow{.name = "", .unit = "us (p99)"};
    slow.name = work.name;
    for (int32_t i = 0; i < std::min(options.repetitions, 3); ++i) {
      if (options.verbose) {
        fmt::print(stderr, "{}\n", world.name);
      }
      const Work done = Steps(world, options.seed + static_cast<uint32_t>(i)).run();
      work.values.push_back(mean(done.us));
      slow.values.push_back(quantile(done.us, 0.99));
    }
    all.push_back(std::move(work));
    all.push_back(std::move(slow));
  }
  return all;
}

}  // namespace pome::bench
