#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduler/prefill_shares.h"

namespace pome::scheduler {

Result<Policy> parse_policy(std::string_view name) {
  if (name == "fcfs") {
    return Policy::fcfs;
  }
  if (name == "lpm") {
    return Policy::lpm;
  }
  if (name == "priority") {
    return Policy::priority;
  }
  return invalid(fmt::format("[--schedule-policy] expected fcfs, lpm or priority, got '{}'", name),
                 "schedule_policy");
}

Scheduler::Scheduler(const SchedulerOptions& options, const kvcache::CacheSpec& spec,
                     const std::vector<int32_t>& group_pages)
    : options_(options),
      cache_(spec, group_pages, options.cache),
      new_token_ratio_(options.conservativeness) {
  CHECK(options.max_running_requests >= 1, "at least one sequence runs");
  CHECK(options.chunk_tokens_max >= 1 && options.scored_tokens_max >= 1, "a chunk has a token");
  for (int32_t slot = options.max_running_requests - 1; slot >= 0; --slot) {
    slots_free_.push_back(SlotId{slot});
  }
}

Status Scheduler::submit(SequenceRequest request) {
  CHECK(!request.prompt.empty(), "a sequence has a prompt");
  CHECK(request.max_tokens >= 0, "a sequence has a length");
  CHECK(!index_.contains(request.sequence), "a sequence is submitted once");
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t fits = cache_.tokens_max(options_.chunk_tokens_max);
  if (prompt + request.max_tokens > fits) {
    return invalid(fmt::format("[scheduler] prompt {} + max_tokens {} = {} tokens can never fit: "
                               "the KV pool holds {}",
                               prompt, request.max_tokens, prompt + request.max_tokens, fits),
                   "max_tokens");
  }
  // One that has ended holds its pages until its step is over, and no place.
  const auto ended = static_cast<size_t>(std::count_if(
      running_.begin(), running_.end(), [](const Sequence& one) { return one.end.has_value(); }));
  if (waiting_.size() + running_.size() - ended >=
      static_cast<size_t>(options_.max_queued_requests + options_.max_running_requests)) {
    return Error{ErrorCode::queue_full,
                 fmt::format("[scheduler] {} requests wait, the most that --max-queued-requests "
                             "allows; try again later",
                             waiting_.size()),
                 {}};
  }
  Sequence sequence;
  sequence.tokens = request.prompt;
  sequence.request = std::move(request);
  sequence.arrival = ++arrivals_;
  nobody_fits_ = false;
  const auto place = waiting_.insert(place_of(sequence), std::move(sequence));
  index_[place->request.sequence] = place;
  return {};
}

std::optional<Ended> Scheduler::abort(SequenceId id) {
  const auto found = index_.find(id);
  if (found == index_.end() || found->second->end) {
    return std::nullopt;
  }
  Sequence& sequence = *found->second;
  sequence.end = EndReason::aborted;
  settle(sequence);
  return Ended{.sequence = id, .reason = EndReason::aborted};
}

int32_t Scheduler::decode_rows_next() const {
  if (!waiting_.empty() && !slots_free_.empty() && !nobody_fits_) {
    return 0;
  }
  int32_t rows = 0;
  for (const Sequence& sequence : running_) {
    if (sequence.wants_row() && !sequence.decodes()) {
      return 0;
    }
    rows += sequence.wants_row() ? 1 : 0;
  }
  return rows;
}

StepPlan Scheduler::plan(int32_t tokens_max) {
  CHECK(flights_.size() <= 1, "at most two steps are in flight");
  CHECK(tokens_max >= options_.max_running_requests, "a budget below one token for each stream");
  admit_waiting();
  nobody_fits_ = true;
  StepPlan plan;
  plan.step = step_ + 1;
  plan.rows.reserve(running_.size());
  outputs_planned_ = 0;
  add_decode_rows(plan);
  const int32_t room = tokens_max - static_cast<int32_t>(plan.rows.size());
  add_prefill_rows(room, /*may_retract=*/false, plan);
  if (plan.rows.empty() && flights_.empty() && !running_.empty()) {
    add_prefill_rows(room, /*may_retract=*/true, plan);
    CHECK(!plan.rows.empty(), "a sequence that is alone has room");
  }
  if (!plan.rows.empty()) {
    step_ = plan.step;
    flights_.push_back({plan.step});
    cache_.step_built(plan.step);
  }
  return plan;
}

std::vector<Ended> Scheduler::commit(const StepPlan& plan, const std::vector<RowResult>& results) {
  CHECK(!flights_.empty() && flights_.front().step == plan.step, "steps are committed in order");
  CHECK(results.size() == plan.rows.size(), "one result for each row");
  std::vector<Ended> ended;
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const Row& row = plan.rows[r];
    CHECK(results[r].accepted == row.count, "rows without drafts are accepted whole");
    CHECK(results[r].sampled.size() == (row.samples ? 1U : 0U), "a row that samples has one token");
    Sequence& sequence = land(row);
    if (!sequence.end) {
      sequence.committed = row.first_position + row.count;
      if (!row.outputs.empty()) {
        sequence.scored =
            std::max(sequence.scored, std::min(sequence.committed + 1, sequence.prompt_tokens()));
      }
      cache_.commit(row.sequence, sequence.tokens, sequence.committed, /*share=*/true);
      std::optional<Ended> end;
      if (row.samples) {
        end = take_token(sequence, results[r].sampled.front());
      } else if (sequence.prompt_only() && sequence.committed == sequence.prompt_tokens()) {
        end = Ended{.sequence = row.sequence, .reason = EndReason::length};
      }
      if (end) {
        sequence.end = end->reason;
        ended.push_back(*end);
      }
    }
    settle(sequence);
  }
  finish_flight(plan);
  new_token_ratio_.step_committed();
  return ended;
}

std::vector<Ended> Scheduler::abandon(const StepPlan& plan) {
  std::vector<Ended> ended;
  for (const Row& row : plan.rows) {
    Sequence& sequence = land(row);
    if (!sequence.end) {
      sequence.end = EndReason::failed;
      ended.push_back({.sequence = row.sequence, .reason = EndReason::failed});
    }
    settle(sequence);
  }
  finish_flight(plan);
  return ended;
}

void Scheduler::retry(const StepPlan& plan) {
  for (const Row& row : plan.rows) {
    Sequence& sequence = land(row);
    sequence.leaving = true;
    settle(sequence);
  }
  finish_flight(plan);
}

const Sequence* Scheduler::find(SequenceId sequence) const {
  const auto found = index_.find(sequence);
  return found == index_.end() ? nullptr : &*found->second;
}

SchedulerStats Scheduler::stats() const {
  const kvcache::CacheStats cache = cache_.stats();
  return {.running = static_cast<int32_t>(running_.size()),
          .waiting = static_cast<int32_t>(waiting_.size()),
          .tokens_used = cache.tokens_used,
          .tokens_cached = cache.tokens_cached,
          .tokens_max = cache_.tokens_max(options_.chunk_tokens_max),
          .retracted_total = retractions_,
          .evicted_tokens_total = cache.evictions_total * cache_.page_tokens()};
}

// ---- building a step

void Scheduler::add_decode_rows(StepPlan& plan) {
  for (Sequence& sequence : running_) {
    if (sequence.wants_row() && sequence.decodes() && make_room(sequence, sequence.built + 1)) {
      add_row(sequence, 1, plan);
    }
  }
}

void Scheduler::add_prefill_rows(int32_t room, bool may_retract, StepPlan& plan) {
  std::vector<Sequence*> prompts;
  for (Sequence& sequence : running_) {
    if (sequence.wants_row() && !sequence.decodes()) {
      prompts.push_back(&sequence);
    }
  }
  if (options_.policy == Policy::priority) {
    std::stable_sort(prompts.begin(), prompts.end(), [](const Sequence* a, const Sequence* b) {
      return a->request.priority > b->request.priority;
    });
  }
  std::vector<int32_t> left;
  for (const Sequence* sequence : prompts) {
    left.push_back(sequence->left());
  }
  const std::vector<int32_t> shares = prefill_shares(left, room, options_.chunk_tokens_max);
  int32_t score_room = options_.scored_tokens_max;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Sequence& sequence = *prompts[i];
    if (sequence.leaving || sequence.admission == 0) {
      continue;  // retracted for one before it
    }
    int32_t count = shares[i];
    const int32_t unscored = std::max(sequence.first_scored_position() - sequence.built, 0);
    if (sequence.scores()) {
      count = std::min(count, unscored + score_room);
    }
    count = cache_.row_tokens(sequence.built, count);
    if (may_retract && plan.rows.empty() && count > 0 &&
        !make_room(sequence, sequence.built + count)) {
      continue;
    }
    while (count > 0 && !cache_.grow(sequence.request.sequence, sequence.built + count)) {
      count /= 2;
    }
    if (count > 0) {
      score_room -= sequence.scores() ? std::max(count - unscored, 0) : 0;
      add_row(sequence, count, plan);
    }
  }
}

// Pages for the first `tokens` positions, if need be those of sequences that yield to this one. A
// step in flight with such a one must be committed first: until then this sequence sits out.
bool Scheduler::make_room(const Sequence& sequence, int32_t tokens) {
  while (!cache_.grow(sequence.request.sequence, tokens)) {
    Sequence* victim = nullptr;
    for (Sequence& other : running_) {
      const bool holds = !other.end && &other != &sequence;
      if (holds && other.leaving) {
        return false;  // its pages are on their way
      }
      if (holds && yields_to(other, sequence) && (victim == nullptr || yields_to(other, *victim))) {
        victim = &other;
      }
    }
    if (victim == nullptr) {
      return false;
    }
    victim->leaving = true;
    new_token_ratio_.pages_ran_out();
    if (victim->steps_in_flight > 0) {
      return false;
    }
    retract(*victim);
  }
  return true;
}

// Whose pages are given up first: lower priority, fewer outputs, admitted later.
bool Scheduler::yields_to(const Sequence& victim, const Sequence& other) const {
  if (options_.policy == Policy::priority && victim.request.priority != other.request.priority) {
    return victim.request.priority < other.request.priority;
  }
  if (victim.outputs() != other.outputs()) {
    return victim.outputs() < other.outputs();
  }
  return victim.admission > other.admission;
}

void Scheduler::add_row(Sequence& sequence, int32_t count, StepPlan& plan) {
  const SequenceId id = sequence.request.sequence;
  Row row;
  row.sequence = id;
  row.slot = sequence.slot;
  row.first_position = sequence.built;
  row.count = count;
  if (sequence.built >= sequence.known_tokens()) {
    row.input = FromStepInFlight{sequence.pending_output};
  } else {
    const auto begin = sequence.tokens.begin() + sequence.built;
    row.input = HostTokens{{begin, begin + count}};
  }
  row.samples = count == sequence.left() && !sequence.prompt_only();
  int32_t begin = row.samples ? count - 1 : count;
  if (sequence.scores() && row.first_position + 1 < sequence.prompt_tokens()) {
    begin = std::min(begin, std::max(sequence.first_scored_position() - row.first_position, 0));
  }
  if (begin < count) {
    row.outputs.push_back({.begin = begin, .kind = OutputKind::logits});
  }
  row.page_groups.reserve(cache_.group_count());
  for (size_t group = 0; group < cache_.group_count(); ++group) {
    row.page_groups.push_back(cache_.table(id, group));
  }
  row.copies = cache_.take_copies(id);
  const kvcache::StateSlots state = cache_.state_slots(id);
  row.state_in = state.in;
  row.state_out = state.out;
  sequence.built += count;
  ++sequence.steps_in_flight;
  if (row.samples) {
    ++sequence.outputs_pending;
    sequence.pending_output = outputs_planned_++;
  }
  plan.rows.push_back(std::move(row));
}

// ---- the end of steps and sequences

std::optional<Ended> Scheduler::take_token(Sequence& sequence, Token token) {
  const SequenceRequest& request = sequence.request;
  sequence.tokens.push_back(token);
  if (std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) !=
      request.stop_tokens.end()) {
    return Ended{request.sequence, EndReason::stop_token, token};
  }
  if (sequence.outputs() >= request.max_tokens) {
    return Ended{.sequence = request.sequence, .reason = EndReason::length};
  }
  return std::nullopt;
}

Sequence& Scheduler::land(const Row& row) {
  const auto found = index_.find(row.sequence);
  CHECK(found != index_.end() && found->second->steps_in_flight > 0,
        "a row in flight has its sequence");
  Sequence& sequence = *found->second;
  --sequence.steps_in_flight;
  sequence.outputs_pending -= row.samples ? 1 : 0;
  return sequence;
}

void Scheduler::settle(Sequence& sequence) {
  if (sequence.steps_in_flight > 0) {
    return;
  }
  if (sequence.end) {
    erase(sequence);
  } else if (sequence.leaving) {
    retract(sequence);
  }
}

void Scheduler::give_back(Sequence& sequence) {
  if (sequence.end != EndReason::failed) {
    cache_.commit(sequence.request.sequence, sequence.tokens, sequence.committed, /*share=*/true);
  }
  cache_.close(sequence.request.sequence);
  slots_free_.push_back(sequence.slot);
  sequence.admission = 0;
  nobody_fits_ = false;
}

void Scheduler::retract(Sequence& sequence) {
  give_back(sequence);
  ++retractions_;
  sequence.leaving = false;
  sequence.built = 0;
  sequence.committed = 0;
  sequence.matched_version.reset();
  const auto here = index_.at(sequence.request.sequence);
  waiting_.splice(place_of(sequence), running_, here);
}

void Scheduler::erase(Sequence& sequence) {
  const auto here = index_.at(sequence.request.sequence);
  const bool running = sequence.admission != 0;
  if (running) {
    give_back(sequence);
  }
  index_.erase(sequence.request.sequence);
  (running ? running_ : waiting_).erase(here);
}

void Scheduler::finish_flight(const StepPlan& plan) {
  const auto flight = std::find_if(flights_.begin(), flights_.end(),
                                   [&](const Flight& one) { return one.step == plan.step; });
  CHECK(flight != flights_.end() && !flight->done, "only a step in flight ends");
  flight->done = true;
  while (!flights_.empty() && flights_.front().done) {
    cache_.step_done(flights_.front().step);
    flights_.pop_front();
  }
}

void Scheduler::check_integrity() const {
  cache_.check_integrity();
  std::vector<bool> taken(static_cast<size_t>(options_.max_running_requests), false);
  const auto take = [&taken](SlotId slot) {
    const auto index = static_cast<size_t>(slot);
    CHECK(index < taken.size(), "a slot outside the table");
    CHECK(!taken[index], "a slot has two owners");
    taken[index] = true;
  };
  for (const Sequence& sequence : running_) {
    take(sequence.slot);
    CHECK(sequence.admission > 0 && cache_.holds(sequence.request.sequence),
          "a running sequence holds its pages");
    CHECK(sequence.committed <= sequence.built, "a step was committed before it was built");
    CHECK(sequence.built <= sequence.prompt_tokens() + std::max(sequence.request.max_tokens, 1),
          "a sequence ran past its length");
    CHECK(sequence.steps_in_flight <= static_cast<int32_t>(flights_.size()),
          "a row is in flight without a step");
    CHECK(sequence.outputs_pending <= sequence.steps_in_flight, "an output without its row");
    CHECK(sequence.steps_in_flight > 0 || !(sequence.end || sequence.leaving),
          "a sequence stays behind");
  }
  for (const SlotId slot : slots_free_) {
    take(slot);
  }
  CHECK(std::find(taken.begin(), taken.end(), false) == taken.end(), "a slot leaked");
  for (const Sequence& sequence : waiting_) {
    CHECK(sequence.admission == 0 && !cache_.holds(sequence.request.sequence),
          "a waiting sequence holds pages");
  }
  CHECK(index_.size() == waiting_.size() + running_.size(), "a sequence is lost");
  CHECK(!running_.empty() || cache_.stats().tokens_used == 0, "pages leaked");
}

}  // namespace pome::scheduler
