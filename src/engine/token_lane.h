#pragma once

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/api.h"
#include "engine/engine_options.h"
#include "engine/memory/memory_plan.h"
#include "kvpool/kv_pool.h"
#include "models/language_model.h"
#include "sampling/sample_step.h"
#include "sampling/sequence_state.h"
#include "scheduler/scheduler.h"
#include "scheduler/step_budget.h"

namespace pome::engine {

// What one step did.
struct StepOutcome {
  std::vector<Event> events = {};
  int32_t prompt_tokens = 0;  // prefilled
  int32_t generated_tokens = 0;
  int32_t rows = 0;  // 0: there was nothing to run
  std::chrono::nanoseconds duration{0};
  bool failed = false;  // an exception ended the step's sequences
};

// Language models on the engine thread: the model, its KV pool, the scheduler and the sampling
// state of every sequence. All of it is built, used and destroyed on that thread.
class TokenLane {
 public:
  // The memory plan is made before the pool is reserved; what does not fit is refused with its
  // table.
  static Result<std::unique_ptr<TokenLane>> load(const EngineOptions& options,
                                                 const ModelLoader& loader);

  const ModelInfo& model() const { return info_; }
  const MemoryPlan& memory_plan() const { return plan_; }

  // Generates one token, so that the first request finds everything compiled and paged in.
  Status warm_up();

  // Takes a job that passed check_job(); refusals become its last event.
  void add(Job job, std::vector<Event>& events);
  void cancel(RequestId request, std::vector<Event>& events);
  void finish(SequenceId sequence, std::vector<Event>& events);
  void cancel_all(std::vector<Event>& events);

  bool idle() const { return scheduler_.idle(); }
  StepOutcome step();
  scheduler::SchedulerStats stats() const { return scheduler_.stats(); }
  double prefill_tokens_per_s() const { return budget_.tokens_per_s(); }
  void check_integrity() const { scheduler_.check_integrity(); }

 private:
  struct Live {
    RequestId request{};
    int32_t prompt_tokens = 0;
    int32_t completion_tokens = 0;
    sampling::SequenceState sampling;
  };

  struct Loaded {
    std::unique_ptr<models::LanguageModel> model;
    ModelInfo info;
    MemoryPlan plan;
    kvcache::CacheSpec spec;
    int32_t step_tokens_max = 0;
  };
  TokenLane(const EngineOptions& options, Loaded loaded);

  // Gather, run and sample; returns when the device has finished.
  std::vector<sampling::SampledToken> run(const scheduler::StepPlan& plan);
  void commit(const scheduler::StepPlan& plan, const std::vector<sampling::SampledToken>& sampled,
              StepOutcome& outcome);
  void fail(const scheduler::StepPlan& plan, const std::string& why, StepOutcome& outcome);
  kvpool::KvPool make_pool() const;
  // The last event of a sequence that holds nothing any more.
  Event close(SequenceId sequence, FinishReason reason);
  Event event_of(SequenceId sequence, const Live& live) const;
  bool somebody_is_answered() const;

  const EngineOptions options_;
  const std::unique_ptr<models::LanguageModel> model_;
  const ModelInfo info_;
  const MemoryPlan plan_;
  const kvcache::CacheSpec spec_;
  kvpool::KvPool pool_;
  bool pool_lost_ = false;  // a plain append threw midway: what had pages fails with the step
  scheduler::Scheduler scheduler_;
  scheduler::StepBudget budget_;
  std::map<SequenceId, Live> live_;
  std::mt19937_64 seeds_;
  std::ofstream record_;
};

}  // namespace pome::engine
