#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kvcache/page_store.h"
#include "scheduler/step_plan.h"

namespace pome::scheduler {

// Which waiting sequence is admitted next.
enum class Policy {
  fcfs,      // in order of arrival
  priority,  // larger priority first, then in order of arrival
};
Result<Policy> parse_policy(std::string_view name);

struct SchedulerOptions {
  int32_t max_running_requests = 16;  // also the number of slots
  int32_t max_queued_requests = 256;  // waiting beyond those that run
  int32_t chunk_tokens_max = 2048;    // the longest prefill chunk of one row
  Policy policy = Policy::fcfs;
};

// One sequence to run.
struct SequenceRequest {
  SequenceId sequence{};
  std::vector<Token> prompt;       // at least one token
  int32_t max_tokens = 1;          // at least 1
  std::vector<Token> stop_tokens;  // the model's EOS ids included, unless they are ignored
  int32_t priority = 0;
};

enum class EndReason { stop_token, length, aborted, failed };

// A sequence that holds nothing any more.
struct Ended {
  SequenceId sequence{};
  EndReason reason = EndReason::length;
  std::optional<Token> matched_stop = {};
};

struct SchedulerStats {
  int32_t running = 0;
  int32_t waiting = 0;
  int64_t tokens_used = 0;  // KV positions that have a page
  int64_t tokens_max = 0;
};

// Owns every sequence from submit() to its end. plan() and commit() alternate; between them the
// step is in flight and an aborted row keeps its pages until commit. One thread.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, const kvcache::CacheSpec& spec,
            const std::vector<int32_t>& group_pages);

  // queue_full past the bound; invalid_argument, with the arithmetic, when it can never fit.
  Status submit(SequenceRequest request);
  // Ends a sequence, waiting or running; at once, or in commit() when a step is in flight with it.
  // Nothing when the id is unknown or already ended.
  std::optional<Ended> abort(SequenceId sequence);

  bool idle() const { return waiting_.empty() && running_.empty(); }
  // The next step under `tokens_max` (at least max_running_requests, so that every stream moves).
  // Empty when nothing can run. The step is then in flight until commit() or abandon().
  StepPlan plan(int32_t tokens_max);
  // One result per row of the plan, in its order.
  std::vector<Ended> commit(const StepPlan& plan, const std::vector<RowResult>& results);
  // The step threw: its sequences end with `failed`.
  std::vector<Ended> abandon(const StepPlan& plan);

  SchedulerStats stats() const;
  // Admitted and not yet ended: it has a slot and pages.
  bool is_running(SequenceId sequence) const { return store_.holds(sequence); }
  // Ends the process when slots, pages and sequences do not add up.
  void check_integrity() const;

 private:
  struct Sequence {
    SequenceRequest request;
    SlotId slot{};
    int32_t computed = 0;  // positions in the cache once the steps built so far have run
    std::vector<Token> outputs = {};
    bool in_flight = false;
    bool aborted = false;

    int32_t prompt_tokens() const { return static_cast<int32_t>(request.prompt.size()); }
    int32_t prompt_left() const { return prompt_tokens() - computed; }
    bool decoding() const { return prompt_left() <= 0; }
  };
  using Running = std::list<Sequence>;

  void admit_waiting();
  std::map<SequenceId, int32_t> share_prefill(int32_t tokens_max) const;
  Row row_of(Sequence& sequence, int32_t count);
  std::optional<Ended> take_token(Sequence& sequence, Token token);
  // The only way out of `running_`: slot and pages come back.
  Running::iterator release(Running::iterator sequence);
  Running::iterator find_running(SequenceId sequence);
  void check_in_flight(const StepPlan& plan) const;

  const SchedulerOptions options_;
  kvcache::PageStore store_;
  std::list<SequenceRequest> waiting_;  // in the order of admission
  Running running_;                     // in the order of admission
  std::vector<SlotId> slots_free_;
  int64_t step_ = 0;
  std::optional<int64_t> step_in_flight_;
};

}  // namespace pome::scheduler
