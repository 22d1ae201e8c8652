#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pome::scheduler {
namespace {

std::vector<PageRun> runs_of(std::span<const PageId> pages) {
  std::vector<PageRun> runs;
  for (const PageId page : pages) {
    const bool follows =
        !runs.empty() &&
        static_cast<int32_t>(runs.back().first) + runs.back().count == static_cast<int32_t>(page);
    if (follows) {
      ++runs.back().count;
    } else {
      runs.push_back({page, 1});
    }
  }
  return runs;
}

}  // namespace

Result<Policy> parse_policy(std::string_view name) {
  if (name == "fcfs") {
    return Policy::fcfs;
  }
  if (name == "priority") {
    return Policy::priority;
  }
  return invalid(fmt::format("[--schedule-policy] expected fcfs or priority, got '{}'", name),
                 "schedule_policy");
}

Scheduler::Scheduler(const SchedulerOptions& options, const kvcache::CacheSpec& spec,
                     const std::vector<int32_t>& group_pages)
    : options_(options), store_(spec, group_pages) {
  CHECK(options.max_running_requests >= 1, "at least one sequence runs");
  CHECK(options.max_queued_requests >= 0, "a queue bound is not negative");
  CHECK(options.chunk_tokens_max >= 1, "a chunk has at least one token");
  for (int32_t slot = options.max_running_requests - 1; slot >= 0; --slot) {
    slots_free_.push_back(SlotId{slot});
  }
}

Status Scheduler::submit(SequenceRequest request) {
  CHECK(!request.prompt.empty() && request.max_tokens >= 1, "a sequence has work to do");
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt + request.max_tokens > store_.tokens_max()) {
    return invalid(
        fmt::format("[scheduler] prompt {} + max_tokens {} = {} tokens can never fit: "
                    "the KV pool holds {}",
                    prompt, request.max_tokens, prompt + request.max_tokens, store_.tokens_max()),
        "max_tokens");
  }
  if (waiting_.size() + running_.size() >=
      static_cast<size_t>(options_.max_queued_requests + options_.max_running_requests)) {
    return Error{ErrorCode::queue_full,
                 fmt::format("[scheduler] {} requests wait, the most that --max-queued-requests "
                             "allows; try again later",
                             waiting_.size()),
                 {}};
  }
  auto place = waiting_.end();
  if (options_.policy == Policy::priority) {
    place = std::find_if(waiting_.begin(), waiting_.end(), [&](const SequenceRequest& other) {
      return other.priority < request.priority;
    });
  }
  waiting_.insert(place, std::move(request));
  return {};
}

std::optional<Ended> Scheduler::abort(SequenceId sequence) {
  const Ended ended{.sequence = sequence, .reason = EndReason::aborted};
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& request) {
    return request.sequence == sequence;
  });
  if (waits != waiting_.end()) {
    waiting_.erase(waits);
    return ended;
  }
  const auto runs = find_running(sequence);
  if (runs == running_.end()) {
    return std::nullopt;
  }
  if (runs->in_flight) {
    runs->aborted = true;
    return std::nullopt;
  }
  release(runs);
  return ended;
}

StepPlan Scheduler::plan(int32_t tokens_max) {
  CHECK(!step_in_flight_, "the step before must be committed first");
  CHECK(tokens_max >= options_.max_running_requests, "a budget below one token for each stream");
  admit_waiting();
  StepPlan plan;
  plan.step = ++step_;
  for (Sequence& sequence : running_) {
    if (sequence.decoding()) {
      plan.rows.push_back(row_of(sequence, 1));
    }
  }
  const auto shares = share_prefill(tokens_max - static_cast<int32_t>(plan.rows.size()));
  for (Sequence& sequence : running_) {
    if (const auto share = shares.find(sequence.request.sequence); share != shares.end()) {
      plan.rows.push_back(row_of(sequence, share->second));
    }
  }
  if (!plan.rows.empty()) {
    step_in_flight_ = plan.step;
  }
  return plan;
}

std::vector<Ended> Scheduler::commit(const StepPlan& plan, const std::vector<RowResult>& results) {
  check_in_flight(plan);
  CHECK(results.size() == plan.rows.size(), "one result for each row");
  step_in_flight_.reset();
  std::vector<Ended> ended;
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const Row& row = plan.rows[r];
    const auto sequence = find_running(row.sequence);
    CHECK(sequence != running_.end() && sequence->in_flight, "a row's sequence is running");
    CHECK(results[r].accepted == row.count, "rows without drafts are accepted whole");
    CHECK(results[r].sampled.size() == (row.outputs.empty() ? 0U : 1U),
          "a row with an output samples one token");
    sequence->in_flight = false;
    std::optional<Ended> end;
    if (sequence->aborted) {
      end = Ended{.sequence = row.sequence, .reason = EndReason::aborted};
    } else if (!results[r].sampled.empty()) {
      end = take_token(*sequence, results[r].sampled.front());
    }
    if (end) {
      ended.push_back(*end);
      release(sequence);
    }
  }
  return ended;
}

std::vector<Ended> Scheduler::abandon(const StepPlan& plan) {
  check_in_flight(plan);
  step_in_flight_.reset();
  std::vector<Ended> ended;
  for (const Row& row : plan.rows) {
    const auto sequence = find_running(row.sequence);
    CHECK(sequence != running_.end() && sequence->in_flight, "a row's sequence is running");
    ended.push_back({.sequence = row.sequence,
                     .reason = sequence->aborted ? EndReason::aborted : EndReason::failed});
    release(sequence);
  }
  return ended;
}

SchedulerStats Scheduler::stats() const {
  return {.running = static_cast<int32_t>(running_.size()),
          .waiting = static_cast<int32_t>(waiting_.size()),
          .tokens_used = store_.tokens_used(),
          .tokens_max = store_.tokens_max()};
}

void Scheduler::check_integrity() const {
  store_.check_integrity();
  std::vector<bool> taken(static_cast<size_t>(options_.max_running_requests), false);
  const auto take = [&taken](SlotId slot) {
    const auto index = static_cast<size_t>(slot);
    CHECK(index < taken.size(), "a slot outside the table");
    CHECK(!taken[index], "a slot has two owners");
    taken[index] = true;
  };
  for (const Sequence& sequence : running_) {
    take(sequence.slot);
    CHECK(store_.holds(sequence.request.sequence), "a running sequence holds its pages");
    CHECK(sequence.computed <= sequence.prompt_tokens() + sequence.request.max_tokens,
          "a sequence ran past its length");
    const auto pages = store_.pages(sequence.request.sequence, 0).size();
    CHECK(static_cast<int32_t>(pages) == store_.pages_for(sequence.computed),
          "a sequence has a page for each of its positions and none beyond");
    CHECK(!sequence.in_flight || step_in_flight_, "a row is in flight without a step");
  }
  for (const SlotId slot : slots_free_) {
    take(slot);
  }
  CHECK(std::find(taken.begin(), taken.end(), false) == taken.end(), "a slot leaked");
  for (const SequenceRequest& request : waiting_) {
    CHECK(!store_.holds(request.sequence), "a waiting sequence holds pages");
  }
  CHECK(!running_.empty() || store_.tokens_used() == 0, "pages leaked");
}

void Scheduler::admit_waiting() {
  // In order: a large request at the head waits for its pages and is not overtaken for ever.
  while (!waiting_.empty() && !slots_free_.empty()) {
    SequenceRequest& next = waiting_.front();
    const auto tokens = static_cast<int64_t>(next.prompt.size()) + next.max_tokens;
    if (!store_.admit(next.sequence, tokens)) {
      return;
    }
    running_.push_back({.request = std::move(next), .slot = slots_free_.back()});
    slots_free_.pop_back();
    waiting_.pop_front();
  }
}

std::map<SequenceId, int32_t> Scheduler::share_prefill(int32_t tokens_max) const {
  std::vector<const Sequence*> prefilling;
  for (const Sequence& sequence : running_) {
    if (!sequence.decoding()) {
      prefilling.push_back(&sequence);
    }
  }
  std::map<SequenceId, int32_t> shares;
  int32_t left = tokens_max;
  const auto give = [&](const Sequence& sequence, int32_t most) {
    int32_t& share = shares[sequence.request.sequence];
    const int32_t more =
        std::min({sequence.prompt_left(), options_.chunk_tokens_max, share + most});
    left -= more - share;
    share = more;
  };
  if (prefilling.empty() || left <= 0) {
    return shares;
  }
  const Sequence& oldest = *prefilling.front();
  give(oldest, (left + 1) / 2);
  std::stable_sort(prefilling.begin(), prefilling.end(), [](const auto* a, const auto* b) {
    return a->prompt_left() < b->prompt_left();
  });
  for (const Sequence* sequence : prefilling) {
    if (left > 0 && sequence != &oldest) {
      give(*sequence, left);
    }
  }
  give(oldest, left);
  return shares;
}

Row Scheduler::row_of(Sequence& sequence, int32_t count) {
  const SequenceId id = sequence.request.sequence;
  Row row;
  row.sequence = id;
  row.slot = sequence.slot;
  row.first_position = sequence.computed;
  row.count = count;
  if (sequence.decoding()) {
    row.input = HostTokens{{sequence.outputs.back()}};
  } else {
    const auto begin = sequence.request.prompt.begin() + sequence.computed;
    row.input = HostTokens{{begin, begin + count}};
  }
  sequence.computed += count;
  sequence.in_flight = true;
  store_.grow(id, sequence.computed);
  if (sequence.decoding()) {
    row.outputs.push_back({.begin = count - 1, .kind = OutputKind::logits});
  }
  for (size_t group = 0; group < store_.group_count(); ++group) {
    row.page_groups.push_back(runs_of(store_.pages(id, group)));
  }
  return row;
}

std::optional<Ended> Scheduler::take_token(Sequence& sequence, Token token) {
  const SequenceRequest& request = sequence.request;
  sequence.outputs.push_back(token);
  if (std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) !=
      request.stop_tokens.end()) {
    return Ended{request.sequence, EndReason::stop_token, token};
  }
  if (static_cast<int32_t>(sequence.outputs.size()) >= request.max_tokens) {
    return Ended{.sequence = request.sequence, .reason = EndReason::length};
  }
  return std::nullopt;
}

Scheduler::Running::iterator Scheduler::release(Running::iterator sequence) {
  store_.release(sequence->request.sequence);
  slots_free_.push_back(sequence->slot);
  return running_.erase(sequence);
}

Scheduler::Running::iterator Scheduler::find_running(SequenceId sequence) {
  return std::find_if(running_.begin(), running_.end(),
                      [&](const Sequence& one) { return one.request.sequence == sequence; });
}

void Scheduler::check_in_flight(const StepPlan& plan) const {
  CHECK(step_in_flight_ == plan.step, "only the step in flight can be committed");
}

}  // namespace pome::scheduler
