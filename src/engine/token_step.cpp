#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/token_lane.h"
#include "kernels/backend.h"
#include "telemetry/trace.h"

// One step of the token lane: launch (plan, gather, forward), sample, and at its end commit.
namespace pome::engine {
namespace {

using scheduler::EndReason;
using scheduler::Row;
using scheduler::RowResult;
using scheduler::StepPlan;

FinishReason finish_reason(EndReason reason) {
  switch (reason) {
    case EndReason::stop_token:
      return FinishReason::stop_token;
    case EndReason::length:
      return FinishReason::length;
    case EndReason::aborted:
      return FinishReason::cancelled;
    case EndReason::failed:
      return FinishReason::error;
  }
  return FinishReason::error;
}

TokenOutput output_of(const sampling::SampledToken& sampled) {
  TokenOutput output;
  output.token = sampled.token;
  output.logprob = sampled.logprob;
  for (const sampling::RankedToken& ranked : sampled.top) {
    output.top.push_back({ranked.token, ranked.logprob});
  }
  for (const sampling::RankedToken& requested : sampled.requested) {
    output.requested.push_back({requested.token, requested.logprob});
  }
  return output;
}

bool is_broken(const std::optional<sampling::SampledToken>& token,
               const std::vector<sampling::SampledToken>& scores) {
  return (token && token->broken) ||
         std::any_of(scores.begin(), scores.end(), [](const auto& score) { return score.broken; });
}

}  // namespace

// A second step in flight would make plain appends copy the pool. On the CPU only steps of a few
// streams overlap: what a chunk of a prompt needs would be in memory for two steps at once, the
// host's work would take the processor from it, and who arrives meanwhile can still join the next.
bool TokenLane::overlaps() const {
  if (options_.disable_overlap_schedule || !runner_.appends_in_place()) {
    return false;
  }
  if (!kernels::own_cpu_kernels()) {
    return true;
  }
  const int32_t rows = scheduler_.decode_rows_next();
  return rows > 0 && rows <= kRunAheadTokens && runner_.newest().token_count() <= kRunAheadTokens;
}

StepOutcome TokenLane::step() {
  StepOutcome outcome;
  if (runner_.steps_in_flight() == 0) {
    step_began_ = std::chrono::steady_clock::now();
    launch(outcome);
    sample(outcome);
  }
  if (runner_.steps_in_flight() == 0) {
    return outcome;
  }
  if (overlaps()) {
    launch(outcome);
  }
  finish_oldest(outcome);
  sample(outcome);
  if (options_.check_every_step) {
    scheduler_.check_integrity();
  }
  return outcome;
}

void TokenLane::launch(StepOutcome& outcome) {
  const int32_t tokens =
      std::max(budget_.tokens(scheduler_.short_prompt_next()), options_.max_running_requests);
  StepPlan plan;
  if (options_.trace != nullptr) {
    options_.trace->step_begins(next_step_);
  }
  {
    telemetry::TraceSpan span(options_.trace, "plan");
    plan = scheduler_.plan(tokens);
    span.arg("step", plan.step);
    span.arg("rows", static_cast<int64_t>(plan.rows.size()));
    span.arg("tokens", plan.token_count());
  }
  if (plan.rows.empty()) {
    return;
  }
  next_step_ = plan.step + 1;
  if (recorder_.is_open()) {
    recorder_.write(plan);
  }
  try {
    if (options_.before_step) {
      options_.before_step(plan);
    }
    runner_.launch(plan);
  } catch (const std::exception& fault) {
    outcome.rows += static_cast<int32_t>(plan.rows.size());
    fail(plan, fault.what(), outcome);
  }
}

void TokenLane::sample(StepOutcome& outcome) {
  if (runner_.steps_in_flight() == 0) {
    return;
  }
  try {
    runner_.sample([this](const Row& row) { return sampling_of(row); });
  } catch (const std::exception& fault) {
    outcome.rows += static_cast<int32_t>(runner_.oldest().rows.size());
    fail_in_flight(fault.what(), outcome);
  }
}

RowSampling TokenLane::sampling_of(const Row& row) const {
  const auto live = live_.find(row.sequence);
  if (live == live_.end()) {
    return {};
  }
  return {.state = &live->second.sampling, .scored_prompt = live->second.scored_prompt};
}

void TokenLane::finish_oldest(StepOutcome& outcome) {
  const StepPlan plan = runner_.oldest();
  outcome.rows += static_cast<int32_t>(plan.rows.size());
  std::optional<std::vector<Said>> said;
  try {
    said = runner_.finish_oldest();
  } catch (const std::exception& fault) {
    fail_in_flight(fault.what(), outcome);
  }
  const auto now = std::chrono::steady_clock::now();
  outcome.duration = now - std::exchange(step_began_, now);
  if (said) {
    {
      telemetry::TraceSpan span(options_.trace, "commit");
      span.arg("step", plan.step);
      commit(plan, *said, outcome);
    }
    if (options_.trace != nullptr) {
      options_.trace->step_ends(plan.step);
    }
    if (options_.mlx_clear_cache_steps > 0 && ++steps_ % options_.mlx_clear_cache_steps == 0) {
      mx::clear_cache();  // buffers of shapes that do not come again
    }
    budget_.observe(plan.token_count(), outcome.duration);
  }
}

void TokenLane::commit(const StepPlan& plan, const std::vector<Said>& said, StepOutcome& outcome) {
  std::vector<RowResult> results;
  RecordedTokens stood{.step = plan.step};
  std::map<SequenceId, size_t> event_of_sequence;
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const Row& row = plan.rows[r];
    RowResult& result = results.emplace_back();
    result.accepted = row.count;
    if (said[r].token) {
      result.sampled = {said[r].token->token};
    }
    const auto found = live_.find(row.sequence);
    if (found == live_.end()) {
      continue;  // ended while the row was in flight
    }
    Live& live = found->second;
    if (row.first_position < live.prompt_tokens) {
      outcome.prompt_tokens += row.count;
    }
    if (!live.cached_tokens) {
      live.cached_tokens = scheduler_.find(row.sequence)->cached_tokens;
      outcome.cached_tokens += *live.cached_tokens;
    }
    if (is_broken(said[r].token, said[r].scores)) {
      outcome.events.push_back(broken(row.sequence));
    } else if (said[r].token || !said[r].scores.empty()) {
      event_of_sequence[row.sequence] = outcome.events.size();
      outcome.events.push_back(take(row, live, said[r]));
      if (said[r].token) {
        ++outcome.generated_tokens;
        stood.tokens.emplace_back(row.sequence, said[r].token->token);
      }
    }
  }
  if (recorder_.is_open()) {
    recorder_.write(std::move(stood));
  }
  for (const scheduler::Ended& ended : scheduler_.commit(plan, results)) {
    const auto found = event_of_sequence.find(ended.sequence);
    if (found == event_of_sequence.end()) {
      outcome.events.push_back(close(ended.sequence, finish_reason(ended.reason)));
      continue;
    }
    outcome.events[found->second].finish = finish_reason(ended.reason);
    outcome.events[found->second].matched_stop = ended.matched_stop;
    live_.erase(ended.sequence);
  }
}

Event TokenLane::take(const Row& row, Live& live, const Said& said) {
  if (said.token) {
    live.sampling.accept(said.token->token);
    ++live.completion_tokens;
  }
  Event event = event_of(row.sequence, live);
  if (said.token) {
    event.tokens.push_back(output_of(*said.token));
  }
  if (!said.scores.empty()) {
    event.score_position = scored_position(row);
    for (const sampling::SampledToken& score : said.scores) {
      event.prompt_scores.push_back(output_of(score));
    }
  }
  return event;
}

// The model gave something that is no number: only this sequence ends.
Event TokenLane::broken(SequenceId sequence) {
  scheduler_.abort(sequence);
  Event event = close(sequence, FinishReason::error);
  event.error = {ErrorCode::internal,
                 "[engine] the model's logits are not finite numbers: the weights are damaged, or "
                 "a value went past the range of its type",
                 {}};
  return event;
}

// The oldest step failed. The one behind it took its tokens and pages, and runs again.
void TokenLane::fail_in_flight(const std::string& why, StepOutcome& outcome) {
  const StepPlan failed = runner_.oldest();
  if (runner_.steps_in_flight() > 1) {
    scheduler_.retry(runner_.newest());
  }
  runner_.drop_all();
  fail(failed, why, outcome);
}

void TokenLane::fail(const StepPlan& plan, const std::string& why, StepOutcome& outcome) {
  outcome.failed = true;
  recorder_.write(RecordedFault{plan.step});
  std::vector<scheduler::Ended> ended = scheduler_.abandon(plan);
  if (runner_.take_pool_lost()) {
    for (const auto& [sequence, live] : live_) {
      const scheduler::Sequence* known = scheduler_.find(sequence);
      if (known != nullptr && known->admission != 0 && scheduler_.abort(sequence)) {
        ended.push_back({.sequence = sequence, .reason = EndReason::failed});
      }
    }
    scheduler_.flush_cache();
  }
  for (const scheduler::Ended& end : ended) {
    Event event = close(end.sequence, finish_reason(end.reason));
    event.error = {ErrorCode::internal, fmt::format("[engine] the step failed: {}", why), {}};
    outcome.events.push_back(std::move(event));
  }
}

}  // namespace pome::engine
