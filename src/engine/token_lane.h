#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/api.h"
#include "engine/engine_options.h"
#include "engine/memory/memory_ledger.h"
#include "engine/memory/memory_plan.h"
#include "engine/record/step_record.h"
#include "engine/steps/step_runner.h"
#include "sampling/sequence_state.h"
#include "scheduler/scheduler.h"
#include "scheduler/step_budget.h"

namespace pome::engine {

// What one step, or the end of one, did.
struct StepOutcome {
  std::vector<Event> events = {};
  int32_t prompt_tokens = 0;  // prefilled
  int32_t cached_tokens = 0;  // prompt tokens whose work was skipped
  int32_t generated_tokens = 0;
  int32_t rows = 0;  // 0: there was nothing to run
  std::chrono::nanoseconds duration{0};
  bool failed = false;  // an exception ended the step's sequences
};

// How the options store keys and values.
kvcache::CacheSpec cache_spec_of(const models::LanguageModel& model, const EngineOptions& options,
                                 int32_t page_tokens);
kvpool::KvPoolOptions pool_options(const EngineOptions& options, std::vector<int32_t> group_pages);

// Language models on the engine thread: the scheduler, the steps that it plans and the sampling
// state of every sequence. All of it is built, used and destroyed on that thread.
class TokenLane {
 public:
  // The memory plan is made before the pool is reserved; what does not fit is refused with its
  // table.
  static Result<std::unique_ptr<TokenLane>> load(const EngineOptions& options,
                                                 const ModelLoader& loader);

  const ModelInfo& model() const { return info_; }
  const MemoryPlan& memory_plan() const { return plan_; }
  // MLX's bytes that stay while nothing runs: weights and pool, as far as MLX holds them.
  int64_t idle_bytes() const { return idle_bytes_; }

  // Generates one token with the real pool, and holds MLX to the plan from then on.
  Status warm_up();

  // Takes a job that passed check_job(); refusals become its last event.
  void add(Job job, std::vector<Event>& events);
  void cancel(RequestId request, std::vector<Event>& events);
  void finish(SequenceId sequence, std::vector<Event>& events);
  void cancel_all(std::vector<Event>& events);

  bool idle() const { return scheduler_.idle(); }
  // Runs until the oldest step in flight has ended. With overlap the one after is planned and its
  // forward pass submitted before, so that the device finds work while the host commits.
  StepOutcome step();
  // Forgets every cached prefix; running sequences are not disturbed.
  void flush_cache() { scheduler_.flush_cache(); }
  scheduler::SchedulerStats stats() const { return scheduler_.stats(); }
  double prefill_tokens_per_s() const { return budget_.tokens_per_s(); }
  void check_integrity() const { scheduler_.check_integrity(); }

 private:
  struct Live {
    RequestId request{};
    int32_t prompt_tokens = 0;
    std::vector<Token> scored_prompt = {};      // the prompt, where the job wants scores of it
    std::optional<int32_t> cached_tokens = {};  // known when its first step ends
    int32_t completion_tokens = 0;
    sampling::SequenceState sampling;
  };

  struct Loaded {
    std::shared_ptr<const models::LanguageModel> model;
    ModelInfo info;
    MemoryPlan plan;
    std::optional<MemoryLedger> ledger;
    kvcache::CacheSpec spec;
    int32_t step_tokens_max = 0;
  };
  TokenLane(const EngineOptions& options, Loaded loaded);

  // The three parts of a step. A fault in one fails the step's sequences; the others go on.
  void launch(StepOutcome& outcome);
  void sample(StepOutcome& outcome);
  void finish_oldest(StepOutcome& outcome);

  RowSampling sampling_of(const scheduler::Row& row) const;
  void commit(const scheduler::StepPlan& plan, const std::vector<Said>& said, StepOutcome& outcome);
  Event take(const scheduler::Row& row, Live& live, const Said& said);
  Event broken(SequenceId sequence);
  void fail(const scheduler::StepPlan& plan, const std::string& why, StepOutcome& outcome);
  void fail_in_flight(const std::string& why, StepOutcome& outcome);
  bool overlaps() const;
  // The last event of a sequence that holds nothing any more.
  Event close(SequenceId sequence, FinishReason reason);
  Event event_of(SequenceId sequence, const Live& live) const;

  const EngineOptions options_;
  const ModelInfo info_;
  const MemoryPlan plan_;
  StepRunner runner_;
  scheduler::Scheduler scheduler_;
  scheduler::StepBudget budget_;
  std::map<SequenceId, Live> live_;
  std::chrono::steady_clock::time_point step_began_;
  int64_t steps_ = 0;      // committed
  int64_t next_step_ = 1;  // the number of the one that is planned next
  int64_t idle_bytes_ = 0;
  std::optional<MemoryLedger> ledger_;
  std::mt19937_64 seeds_;
  StepRecorder recorder_;
};

}  // namespace pome::engine
