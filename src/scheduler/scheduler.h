#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kvcache/paged_cache.h"
#include "scheduler/new_token_ratio.h"
#include "scheduler/sequence.h"
#include "scheduler/step_plan.h"

namespace pome::scheduler {

// Which waiting sequence is admitted next. A retracted one goes before the others of its rank.
enum class Policy {
  fcfs,      // in order of arrival
  lpm,       // the longest prefix match first, as long as nobody was overtaken too often
  priority,  // larger priority first, then in order of arrival
};
Result<Policy> parse_policy(std::string_view name);

struct SchedulerOptions {
  int32_t max_running_requests = 16;  // also the number of slots
  int32_t max_queued_requests = 256;  // waiting beyond those that run
  int32_t chunk_tokens_max = 2048;    // the longest prefill chunk of one row
  int32_t scored_tokens_max = 2048;   // prompt positions that one step scores
  Policy policy = Policy::fcfs;
  double conservativeness = 1.0;  // --schedule-conservativeness
  kvcache::PagedCacheOptions cache = {};
};

struct SchedulerStats {
  int32_t running = 0;
  int32_t waiting = 0;
  int64_t tokens_used = 0;    // KV positions that running sequences hold
  int64_t tokens_cached = 0;  // that only the prefix cache holds
  int64_t tokens_max = 0;
  int64_t retracted_total = 0;
  int64_t evicted_tokens_total = 0;  // that left the prefix cache to make room
};

// Owns every sequence from submit() to its end. plan() builds a step, commit() takes its results in
// the same order. Up to two steps are in flight: the next may be planned before the one before is
// committed, and then takes sampled tokens where they are, on the device. One thread.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, const kvcache::CacheSpec& spec,
            const std::vector<int32_t>& group_pages);

  // queue_full past the bound; invalid_argument, with the arithmetic, when it can never fit.
  Status submit(SequenceRequest request);
  // Ends a sequence, waiting or running. Its rows in flight are ignored when they are committed,
  // and its pages come back then. Nothing when the id is unknown or has ended.
  std::optional<Ended> abort(SequenceId sequence);

  // Nothing waits, runs or is in flight.
  bool idle() const { return waiting_.empty() && running_.empty(); }
  int32_t steps_in_flight() const { return static_cast<int32_t>(flights_.size()); }
  // Rows of the next step if it is likely to have streams alone; 0 when it will read of a prompt.
  int32_t decode_rows_next() const;
  // A short prompt, one with few tokens that are not cached, may share the next step with a long
  // one.
  bool short_prompt_next() const;
  // The next step under `tokens_max` (at least max_running_requests, so that every stream moves).
  // Without rows when nothing can run: then no step was built.
  StepPlan plan(int32_t tokens_max);
  // The oldest step in flight: one result for each of its rows, in their order.
  std::vector<Ended> commit(const StepPlan& plan, const std::vector<RowResult>& results);
  // A step in flight threw: its sequences end with `failed`.
  std::vector<Ended> abandon(const StepPlan& plan);
  // A step in flight could not run because an older one failed: what is left of its sequences is
  // retracted and runs again.
  void retry(const StepPlan& plan);

  // Forgets every cached prefix. Running sequences keep their pages.
  void flush_cache() { cache_.flush_cache(); }
  // Null when the id is unknown or nothing of it is left.
  const Sequence* find(SequenceId sequence) const;
  SchedulerStats stats() const;
  // Ends the process when slots, pages and sequences do not add up.
  void check_integrity() const;

 private:
  using Sequences = std::list<Sequence>;
  struct Flight {
    int64_t step = 0;
    bool done = false;
  };

  // Admission (admission.cpp).
  void admit_waiting();
  void sort_by_prefix();
  // cache_.match(), looked up anew only when it could have changed.
  int32_t match(Sequence& sequence);
  std::vector<const Sequence*> prefills_running() const;
  bool shares_a_prefill(const Sequence& sequence, int32_t matched,
                        const std::vector<const Sequence*>& prefills) const;
  bool has_room(const Sequence& sequence, bool is_short, const std::vector<int32_t>& owed) const;
  std::vector<int32_t> pages_owed() const;
  int32_t tokens_expected(const Sequence& sequence) const;
  void admit(Sequences::iterator sequence);
  Sequences::iterator place_of(const Sequence& sequence);

  void add_decode_rows(StepPlan& plan);
  void add_prefill_rows(int32_t room, bool may_retract, StepPlan& plan);
  bool make_room(const Sequence& sequence, int32_t tokens);
  void add_row(Sequence& sequence, int32_t count, StepPlan& plan);
  bool yields_to(const Sequence& victim, const Sequence& other) const;
  std::optional<Ended> take_token(Sequence& sequence, Token token);
  // A row's step is over; what its sequence waited for happens once nothing is in flight with it.
  Sequence& land(const Row& row);
  void settle(Sequence& sequence);
  // The only way out of `running_`: slot and pages come back.
  void give_back(Sequence& sequence);
  void retract(Sequence& sequence);
  void erase(Sequence& sequence);
  void finish_flight(const StepPlan& plan);

  const SchedulerOptions options_;
  kvcache::PagedCache cache_;
  Sequences waiting_;  // in the order of admission
  Sequences running_;  // in the order in which they were admitted
  std::unordered_map<SequenceId, Sequences::iterator> index_;
  std::vector<SlotId> slots_free_;
  std::deque<Flight> flights_;  // oldest first
  NewTokenRatio new_token_ratio_;
  bool nobody_fits_ = false;  // of those that wait, as far as known
  int64_t step_ = 0;
  int32_t outputs_planned_ = 0;  // of the step that is being built
  int64_t arrivals_ = 0;
  int64_t admissions_ = 0;
  int64_t retractions_ = 0;
};

}  // namespace pome::scheduler
