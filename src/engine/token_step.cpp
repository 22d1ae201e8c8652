#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/gather.h"
#include "engine/token_lane.h"
#include "kernels/backend.h"
#include "scheduler/step_plan_json.h"
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

// The prompt position that the logits of the row's first output score.
int32_t scored_position(const Row& row) {
  return row.first_position + (row.outputs.empty() ? row.count : row.outputs.front().begin) + 1;
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

// Plain appends reuse the pool's buffer only when no step in flight holds it.
bool TokenLane::overlaps() const {
  return !options_.disable_overlap_schedule && kernels::own_cpu_kernels();
}

StepOutcome TokenLane::step() {
  StepOutcome outcome;
  if (flights_.empty()) {
    step_began_ = std::chrono::steady_clock::now();
    launch(outcome);
    sample(outcome);
  }
  if (flights_.empty()) {
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
      std::max(budget_.tokens(somebody_is_answered()), options_.max_running_requests);
  StepPlan plan;
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
  if (record_.is_open()) {
    record_ << to_string(scheduler::to_json(plan)) << '\n' << std::flush;
  }
  Flight& flight = flights_.emplace_back(Flight{.plan = std::move(plan), .before = pool_});
  try {
    if (options_.before_step) {
      options_.before_step(flight.plan);
    }
    const layers::Forward forward = gathered(flight.plan);
    telemetry::TraceSpan span(options_.trace, "run");
    span.arg("step", flight.plan.step);
    const models::StepOutput output = model_->forward(forward);
    flight.appended = pool_.handles();
    std::vector<mx::array> wanted = flight.appended;
    if (forward.output_count > 0) {
      flight.logits = output.logits;
      wanted.push_back(output.logits);
    }
    if (!kernels::own_cpu_kernels()) {
      flight.before
          .reset();  // plain appends reuse the pool's buffer only when nobody else holds it
    }
    mx::async_eval(std::move(wanted));
  } catch (const std::exception& fault) {
    fail_newest(fault.what(), outcome);
  }
}

layers::Forward TokenLane::gathered(const StepPlan& plan) {
  telemetry::TraceSpan span(options_.trace, "gather");
  span.arg("step", plan.step);
  std::optional<mx::array> sampled_before;
  if (flights_.size() > 1 && flights_.front().sample) {
    sampled_before = flights_.front().sample->tokens();
  }
  return gather(plan, spec_, &pool_, sampled_before);
}

void TokenLane::sample(StepOutcome& outcome) {
  if (flights_.empty()) {
    return;
  }
  telemetry::TraceSpan span(options_.trace, "sample");
  Flight& flight = flights_.back();
  CHECK(flights_.size() == 1 && !flight.sample, "the step before was committed");
  try {
    if (flight.logits) {
      sample_rows(flight);
    }
    flight.logits.reset();
  } catch (const std::exception& fault) {
    fail_newest(fault.what(), outcome);
  }
}

void TokenLane::sample_rows(Flight& flight) const {
  std::vector<const sampling::SequenceState*> states;
  std::vector<int32_t> places;  // of their logits
  std::vector<sampling::ScoreSpan> spans;
  int32_t place = 0;
  for (size_t r = 0; r < flight.plan.rows.size(); ++r) {
    const Row& row = flight.plan.rows[r];
    const int32_t outputs = row.outputs.empty() ? 0 : row.count - row.outputs.front().begin;
    const auto live = live_.find(row.sequence);
    const bool known = live != live_.end();
    if (row.samples) {
      states.push_back(known ? &live->second.sampling : &nobody_);
      places.push_back(place + outputs - 1);
    }
    const auto first = static_cast<size_t>(scored_position(row));
    if (known && outputs > 0 && first < live->second.scored_prompt.size()) {
      const std::span<const Token> prompt = live->second.scored_prompt;
      const sampling::WantedLogprobs& wanted = live->second.sampling.logprobs();
      spans.push_back({.place = place,
                       .next = prompt.subspan(first, std::min<size_t>(static_cast<size_t>(outputs),
                                                                      prompt.size() - first)),
                       .top = std::max(wanted.top, 0),
                       .requested = wanted.requested});
      flight.scored_rows.push_back(r);
    }
    place += outputs;
  }
  std::vector<mx::array> wanted;
  if (!states.empty()) {
    flight.sample.emplace(*flight.logits, states, places);
    wanted = flight.sample->arrays();
  }
  if (!spans.empty()) {
    flight.score.emplace(*flight.logits, spans);
    const std::vector<mx::array> scored = flight.score->arrays();
    wanted.insert(wanted.end(), scored.begin(), scored.end());
  }
  mx::async_eval(std::move(wanted));
}

void TokenLane::finish_oldest(StepOutcome& outcome) {
  std::optional<std::vector<Said>> said;
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  outcome.rows += static_cast<int32_t>(flight.plan.rows.size());
  try {
    telemetry::TraceSpan span(options_.trace, "wait");
    span.arg("step", flight.plan.step);
    said = wait_for(flight);
  } catch (const std::exception& fault) {
    // The step after took this one's tokens and pages.
    if (!flights_.empty()) {
      scheduler_.retry(flights_.front().plan);
      flights_.clear();
    }
    fail(std::move(flight), fault.what(), outcome);
  }
  const auto now = std::chrono::steady_clock::now();
  outcome.duration = now - std::exchange(step_began_, now);
  if (said) {
    telemetry::TraceSpan span(options_.trace, "commit");
    span.arg("step", flight.plan.step);
    commit(flight.plan, *said, outcome);
    budget_.observe(flight.plan.token_count(), outcome.duration);
  }
}

// The one place that waits for the device.
std::vector<TokenLane::Said> TokenLane::wait_for(Flight& flight) {
  std::vector<mx::array> wanted = std::move(flight.appended);
  const auto add = [&wanted](const std::vector<mx::array>& more) {
    wanted.insert(wanted.end(), more.begin(), more.end());
  };
  if (flight.sample) {
    add(flight.sample->arrays());
  }
  if (flight.score) {
    add(flight.score->arrays());
  }
  mx::eval(std::move(wanted));
  std::vector<Said> said(flight.plan.rows.size());
  if (flight.sample) {
    std::vector<sampling::SampledToken> tokens = flight.sample->read();
    size_t next = 0;
    for (size_t r = 0; r < said.size(); ++r) {
      if (flight.plan.rows[r].samples) {
        said[r].token = std::move(tokens.at(next++));
      }
    }
  }
  if (flight.score) {
    std::vector<std::vector<sampling::SampledToken>> scores = flight.score->read();
    for (size_t i = 0; i < scores.size(); ++i) {
      said[flight.scored_rows[i]].scores = std::move(scores[i]);
    }
  }
  return said;
}

void TokenLane::commit(const StepPlan& plan, const std::vector<Said>& said, StepOutcome& outcome) {
  std::vector<RowResult> results;
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
      outcome.generated_tokens += said[r].token ? 1 : 0;
    }
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

void TokenLane::fail_newest(const std::string& why, StepOutcome& outcome) {
  Flight flight = std::move(flights_.back());
  flights_.pop_back();
  outcome.rows += static_cast<int32_t>(flight.plan.rows.size());
  fail(std::move(flight), why, outcome);
}

void TokenLane::fail(Flight flight, const std::string& why, StepOutcome& outcome) {
  outcome.failed = true;
  std::vector<scheduler::Ended> ended = scheduler_.abandon(flight.plan);
  if (flight.before) {
    // An append writes in place, so what other sequences have in the pages stays.
    pool_ = std::move(*flight.before);
  } else {
    for (const auto& [sequence, live] : live_) {
      const scheduler::Sequence* known = scheduler_.find(sequence);
      if (known != nullptr && known->admission != 0 && scheduler_.abort(sequence)) {
        ended.push_back({.sequence = sequence, .reason = EndReason::failed});
      }
    }
    scheduler_.flush_cache();
    pool_ = make_pool();
  }
  for (const scheduler::Ended& end : ended) {
    Event event = close(end.sequence, finish_reason(end.reason));
    event.error = {ErrorCode::internal, fmt::format("[engine] the step failed: {}", why), {}};
    outcome.events.push_back(std::move(event));
  }
}

}  // namespace pome::engine
