#include "engine/steps/step_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/steps/gather.h"
#include "engine/steps/run_ahead.h"
#include "kernels/backend.h"

namespace pome::engine {

using scheduler::Row;
using scheduler::StepPlan;

namespace {

// On a GPU nothing is held back, and nothing is allocated before it runs.
bool runs_ahead(const StepPlan& plan) {
  return kernels::own_cpu_kernels() && plan.token_count() <= kRunAheadTokens;
}

std::vector<kvcache::PageCopy> copies_of(const StepPlan& plan) {
  std::vector<kvcache::PageCopy> copies;
  for (const Row& row : plan.rows) {
    copies.insert(copies.end(), row.copies.begin(), row.copies.end());
  }
  return copies;
}

}  // namespace

int32_t scored_position(const Row& row) {
  return row.first_position + (row.outputs.empty() ? row.count : row.outputs.front().begin) + 1;
}

StepRunner::StepRunner(std::shared_ptr<const models::LanguageModel> model, kvcache::CacheSpec spec,
                       kvpool::KvPoolOptions pool, telemetry::Trace* trace)
    : model_(std::move(model)),
      spec_(std::move(spec)),
      pool_options_(std::move(pool)),
      trace_(trace),
      in_place_(kvpool::KvPool::appends_in_place(spec_, pool_options_.format)),
      pool_(spec_, pool_options_),
      nobody_({.temperature = 0.0f}, 0, {}, {}, sampling::WantedLogprobs()) {}

void StepRunner::launch(const StepPlan& plan) {
  CHECK(flights_.size() <= 1, "at most two steps are in flight");
  Flight flight{.plan = plan, .before = pool_};
  try {
    pool_.copy_pages(copies_of(plan));
    const layers::Forward forward = gathered(plan);
    telemetry::TraceSpan span(trace_, "run");
    span.arg("step", plan.step);
    const models::StepOutput output = model_->forward(forward);
    flight.appended = pool_.handles();
    std::vector<mx::array> wanted = flight.appended;
    if (forward.output_count > 0) {
      flight.logits = output.logits;
      wanted.push_back(output.logits);
    }
    if (!in_place_) {
      flight.before.reset();  // plain appends reuse the pool's buffer only when nobody holds it
    }
    const RunAhead ahead(run_ahead_ && runs_ahead(plan));
    mx::async_eval(std::move(wanted));
  } catch (...) {
    restore(flight);
    throw;
  }
  flights_.push_back(std::move(flight));
}

layers::Forward StepRunner::gathered(const StepPlan& plan) {
  telemetry::TraceSpan span(trace_, "gather");
  span.arg("step", plan.step);
  std::optional<mx::array> sampled_before;
  if (!flights_.empty() && flights_.front().sample) {
    sampled_before = flights_.front().sample->tokens();
  }
  return gather(plan, spec_, &pool_, sampled_before);
}

void StepRunner::sample(const SamplingOf& sampling) {
  CHECK(flights_.size() == 1 && !flights_.front().sample, "the step before was finished");
  telemetry::TraceSpan span(trace_, "sample");
  Flight& flight = flights_.front();
  span.arg("step", flight.plan.step);
  if (flight.logits) {
    sample_rows(flight, sampling);
  }
  flight.logits.reset();
}

void StepRunner::sample_rows(Flight& flight, const SamplingOf& sampling) const {
  std::vector<const sampling::SequenceState*> states;
  std::vector<int32_t> places;  // of their logits
  std::vector<sampling::ScoreSpan> spans;
  int32_t place = 0;
  for (size_t r = 0; r < flight.plan.rows.size(); ++r) {
    const Row& row = flight.plan.rows[r];
    const int32_t outputs = row.outputs.empty() ? 0 : row.count - row.outputs.front().begin;
    const RowSampling known = sampling(row);
    if (row.samples) {
      states.push_back(known.state != nullptr ? known.state : &nobody_);
      places.push_back(place + outputs - 1);
    }
    const auto first = static_cast<size_t>(scored_position(row));
    if (outputs > 0 && first < known.scored_prompt.size()) {
      const size_t left = known.scored_prompt.size() - first;
      const sampling::WantedLogprobs& wanted = known.state->logprobs();
      spans.push_back(
          {.place = place,
           .next = known.scored_prompt.subspan(first, std::min(static_cast<size_t>(outputs), left)),
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
  const RunAhead ahead(run_ahead_ && runs_ahead(flight.plan));
  mx::async_eval(std::move(wanted));
}

std::vector<Said> StepRunner::finish_oldest() {
  telemetry::TraceSpan span(trace_, "wait");
  Flight& flight = flights_.front();
  span.arg("step", flight.plan.step);
  std::vector<mx::array> wanted = flight.appended;
  const auto add = [&wanted](const std::vector<mx::array>& more) {
    wanted.insert(wanted.end(), more.begin(), more.end());
  };
  if (flight.sample) {
    add(flight.sample->arrays());
  }
  if (flight.score) {
    add(flight.score->arrays());
  }
  mx::eval(std::move(wanted));  // the one place that waits for the device
  std::vector<Said> said = read(flight);
  flights_.pop_front();
  return said;
}

std::vector<Said> StepRunner::read(Flight& flight) {
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

void StepRunner::drop_all() {
  if (!flights_.empty()) {
    Flight oldest = std::move(flights_.front());
    flights_.clear();
    restore(oldest);
  }
}

// An own append writes in place, so what other sequences have in the pages stays.
void StepRunner::restore(Flight& flight) {
  if (flight.before) {
    pool_ = std::move(*flight.before);
  } else {
    pool_lost_ = true;
    pool_ = kvpool::KvPool(spec_, pool_options_);
  }
}

}  // namespace pome::engine
