#include "engine/steps/rehearsal.h"

#include <algorithm>
#include <utility>

#include "engine/steps/step_runner.h"
#include "scheduler/scheduler.h"

namespace pome::engine {
namespace {

// Small, because a large model on a CPU prefills a few tokens a second.
constexpr int32_t kTokens = 4;
constexpr int32_t kMoreTokens = kRunAheadTokens;

std::vector<int32_t> pages_for(const kvcache::CacheSpec& spec) {
  // Of each group, whatever it holds: a page for each token of a step, and the sink.
  return std::vector<int32_t>(spec.groups.size(), 2 * kMoreTokens + 1);
}

sampling::SequenceState demanding_state(Token prompt) {
  sampling::Params params;
  params.temperature = 0.8f;
  params.top_k = 40;
  params.top_p = 0.9f;
  params.min_p = 0.01f;
  params.frequency_penalty = 0.1f;
  params.repetition_penalty = 1.1f;
  const std::vector<Token> tokens = {prompt};
  return {std::move(params), 0, tokens, {}, sampling::WantedLogprobs{.top = 2}};
}

class Rehearsal {
 public:
  Rehearsal(std::shared_ptr<const models::LanguageModel> model, const kvcache::CacheSpec& spec,
            const kvcache::KvFormat& format)
      : runner_(std::move(model), spec, {.group_pages = pages_for(spec), .format = format},
                nullptr),
        scheduler_({.max_running_requests = kTokens,
                    .chunk_tokens_max = kMoreTokens,
                    .cache = {.prefix_cache = false}},
                   spec, pages_for(spec)),
        limit_before_(mx::set_memory_limit(0)) {}
  ~Rehearsal() { mx::set_memory_limit(limit_before_); }
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  void allow_run_ahead(bool allowed) { runner_.allow_run_ahead(allowed); }

  // One step of `rows` prompts of the same length, all of which sample.
  WorkSample run(int32_t tokens, int32_t rows) {
    for (int32_t row = 0; row < rows; ++row) {
      scheduler::SequenceRequest request;
      request.sequence = SequenceId{++last_id_};
      request.prompt.assign(static_cast<size_t>(tokens / rows), 0);
      const Status status = scheduler_.submit(std::move(request));
      CHECK(status.ok(), "a rehearsal fits its pool");
    }
    const scheduler::StepPlan plan = scheduler_.plan(kMoreTokens);
    CHECK(static_cast<int32_t>(plan.rows.size()) == rows, "one step takes them all");
    mx::synchronize();
    const size_t before = mx::get_active_memory();
    mx::reset_peak_memory();
    const std::vector<Said> said = step(plan);
    const size_t peak = std::max(mx::get_peak_memory(), before);
    std::vector<scheduler::RowResult> results;
    for (size_t r = 0; r < plan.rows.size(); ++r) {
      results.push_back({.accepted = plan.rows[r].count, .sampled = {said[r].token->token}});
    }
    scheduler_.commit(plan, results);
    CHECK(scheduler_.idle(), "one token each");
    return {.tokens = tokens, .rows = rows, .bytes = static_cast<int64_t>(peak - before)};
  }

 private:
  std::vector<Said> step(const scheduler::StepPlan& plan) {
    runner_.launch(plan);
    runner_.sample([this](const scheduler::Row&) { return RowSampling{.state = &state_}; });
    return runner_.finish_oldest();
  }

  StepRunner runner_;
  scheduler::Scheduler scheduler_;
  const sampling::SequenceState state_ = demanding_state(0);
  uint64_t last_id_ = 0;
  // Without room MLX waits for what runs before it allocates more: the peak is what a step needs,
  // and not how far ahead of the device MLX happened to be.
  const size_t limit_before_;
};

}  // namespace

WorkSamples rehearse(std::shared_ptr<const models::LanguageModel> model,
                     const kvcache::CacheSpec& spec, const kvcache::KvFormat& format,
                     int32_t rows_max) {
  Rehearsal rehearsal(std::move(model), spec, format);
  rehearsal.allow_run_ahead(false);
  rehearsal.run(1, 1);  // what is made once is made here
  WorkSamples samples;
  samples.small = rehearsal.run(kTokens, 1);
  samples.more_tokens = rehearsal.run(kMoreTokens, 1);
  samples.more_rows = rehearsal.run(kTokens, rows_max >= kTokens ? kTokens : 1);
  rehearsal.allow_run_ahead(true);
  samples.queued_whole = rehearsal.run(kMoreTokens, 1);
  return samples;
}

}  // namespace pome::engine
