#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvpool/kv_pool.h"
#include "layers/forward.h"
#include "models/language_model.h"
#include "sampling/sample_step.h"
#include "sampling/score_step.h"
#include "sampling/sequence_state.h"
#include "scheduler/step_plan.h"
#include "telemetry/trace.h"

namespace pome::engine {

// What is said of one row; both are empty for a row that says nothing.
struct Said {
  std::optional<sampling::SampledToken> token = {};
  std::vector<sampling::SampledToken> scores = {};  // from scored_position() on
};

// The prompt position that the logits of the row's first output score.
int32_t scored_position(const scheduler::Row& row);

// A step of so many tokens at most is queued whole behind the one before it, its intermediate
// results allocated at once.
inline constexpr int32_t kRunAheadTokens = 16;

// What sampling knows of a row's sequence.
struct RowSampling {
  const sampling::SequenceState* state = nullptr;  // null: its token is thrown away
  std::span<const Token> scored_prompt = {};       // the prompt, where scores of it are wanted
};
using SamplingOf = std::function<RowSampling(const scheduler::Row&)>;

// Runs step plans: the model, its KV pool and the steps in flight. Plans come from the scheduler,
// or from a record. All of it belongs to the engine's thread.
class StepRunner {
 public:
  StepRunner(std::shared_ptr<const models::LanguageModel> model, kvcache::CacheSpec spec,
             kvpool::KvPoolOptions pool, telemetry::Trace* trace);

  // Off: MLX holds small steps back like large ones.
  void allow_run_ahead(bool allowed) { run_ahead_ = allowed; }

  // Submits the forward pass of a plan behind the steps in flight. When it throws, the step is not
  // in flight and the pages of other sequences are as they were, unless pool_lost().
  void launch(const scheduler::StepPlan& plan);
  // Submits the sampling of the only step in flight. Throws; drop_all() then.
  void sample(const SamplingOf& sampling);
  // Waits for the oldest step, which was sampled, and takes it out; what its rows said. When it
  // throws the step is still in flight; drop_all() then.
  std::vector<Said> finish_oldest();
  // Forgets the steps in flight; the pool is as it was without them, unless pool_lost().
  void drop_all();

  size_t steps_in_flight() const { return flights_.size(); }
  const scheduler::StepPlan& oldest() const { return flights_.front().plan; }
  const scheduler::StepPlan& newest() const { return flights_.back().plan; }
  // A plain append threw midway and took the pool with it: every page is empty now. Says so once.
  bool take_pool_lost() { return std::exchange(pool_lost_, false); }

  const models::LanguageModel& model() const { return *model_; }
  const kvpool::KvPool& pool() const { return pool_; }
  // If not, a second step in flight would make the appends copy the pool.
  bool appends_in_place() const { return in_place_; }

 private:
  struct Flight {
    scheduler::StepPlan plan;
    // The pool as it was without the step: handles only. Empty once a plain append may reuse it.
    std::optional<kvpool::KvPool> before;
    std::optional<mx::array> logits = {};
    std::vector<mx::array> appended = {};  // the pool's handles after it
    std::optional<sampling::SampleStep> sample = {};
    std::optional<sampling::ScoreStep> score = {};
    std::vector<size_t> scored_rows = {};  // one for each span of `score`
  };
  layers::Forward gathered(const scheduler::StepPlan& plan);
  void sample_rows(Flight& flight, const SamplingOf& sampling) const;
  static std::vector<Said> read(Flight& flight);
  void restore(Flight& flight);

  const std::shared_ptr<const models::LanguageModel> model_;
  const kvcache::CacheSpec spec_;
  const kvpool::KvPoolOptions pool_options_;
  telemetry::Trace* const trace_;
  const bool in_place_;
  kvpool::KvPool pool_;
  bool pool_lost_ = false;
  bool run_ahead_ = true;
  std::deque<Flight> flights_;  // oldest first, at most two
  // Stands for a sequence that ended while its row was in flight.
  const sampling::SequenceState nobody_;
};

}  // namespace pome::engine
