#include "engine/echo/echo_engine.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "engine/job_check.h"

namespace pome::engine {
namespace {

// Tells a trace where a step begins and ends.
class StepBounds {
 public:
  StepBounds(telemetry::Trace* trace, int64_t step) : trace_(trace), step_(step) {
    if (trace_ != nullptr) {
      trace_->step_begins(step_);
    }
  }
  ~StepBounds() {
    if (trace_ != nullptr) {
      trace_->step_ends(step_);
    }
  }
  StepBounds(const StepBounds&) = delete;
  StepBounds& operator=(const StepBounds&) = delete;

 private:
  telemetry::Trace* const trace_;
  const int64_t step_;
};

constexpr int32_t kScoresPerStep = 32;  // of a prompt, as a prefill in chunks would give them

// The token is the most probable, the one with the next id half as probable, and so on round.
TokenOutput scored(Token token, const Job& job, int32_t vocab_tokens) {
  TokenOutput output{.token = token};
  const auto logprob = [](int32_t rank) { return -static_cast<float>(rank + 1) * std::log(2.0f); };
  output.logprob = logprob(0);
  for (int32_t rank = 0; rank < std::min(job.top_logprobs, vocab_tokens); ++rank) {
    output.top.push_back({static_cast<Token>((token + rank) % vocab_tokens), logprob(rank)});
  }
  for (const Token wanted : job.logprob_tokens) {
    output.requested.push_back({wanted, logprob((wanted - token + vocab_tokens) % vocab_tokens)});
  }
  return output;
}

bool contains(const std::vector<Token>& tokens, Token token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

}  // namespace

std::function<std::optional<EchoScript>(const Job&)> scripts_in_order(
    std::vector<EchoScript> scripts) {
  auto next = std::make_shared<size_t>(0);
  return [scripts = std::move(scripts), next](const Job&) -> std::optional<EchoScript> {
    if (*next >= scripts.size()) {
      return std::nullopt;
    }
    return scripts[(*next)++];
  };
}

EchoEngine::EchoEngine(EchoOptions options)
    : options_(std::move(options)),
      unloaded_{.name = options_.model.name, .path = options_.model.path},
      ready_at_(Clock::now() + options_.ready_delay),
      outbox_(std::numeric_limits<size_t>::max()) {
  CHECK(!options_.model.eos_tokens.empty(), "an echo model ends with an EOS token");
  thread_ = std::thread([this] { run(); });
}

EchoEngine::~EchoEngine() {
  stop();
}

Status EchoEngine::submit(Job job) {
  POME_TRY(check_job(job, options_.model));
  const std::lock_guard lock(mutex_);
  if (draining_ || stopping_) {
    return Error{ErrorCode::unavailable, "[engine] the server is shutting down", {}};
  }
  const auto now = Clock::now();
  if (!is_ready(now)) {
    return Error{ErrorCode::unavailable, "[engine] the model is still loading", {}};
  }
  const size_t accepted_max =
      static_cast<size_t>(options_.max_queued_requests + options_.max_running_requests);
  if (waiting_.size() + running_.size() >= accepted_max) {
    return Error{ErrorCode::queue_full,
                 fmt::format("[engine] {} requests run and {} wait, the most that "
                             "--max-queued-requests allows; try again later",
                             running_.size(), waiting_.size()),
                 {}};
  }
  if (idle()) {
    last_step_ = now;  // the age counts from when there was something to do
  }
  Sequence sequence;
  if (options_.script_for) {
    sequence.script = options_.script_for(job).value_or(EchoScript{});
  }
  for (const Segment& segment : job.segments) {
    sequence.prompt.insert(sequence.prompt.end(), segment.tokens.begin(), segment.tokens.end());
  }
  if (sequence.script.tokens.empty()) {
    sequence.script.tokens = sequence.prompt;
  }
  sequence.scored = job.score_from < 0 ? sequence.prompt_tokens() : std::max(job.score_from, 1);
  sequence.speaks_at = now + sequence.script.start_delay;
  sequence.job = std::move(job);
  waiting_.push_back(std::move(sequence));
  changed_.notify_all();
  return {};
}

void EchoEngine::cancel(RequestId request) {
  const std::lock_guard lock(mutex_);
  const auto mark = [request](Sequence& s) { s.cancelled |= s.job.request == request; };
  std::for_each(waiting_.begin(), waiting_.end(), mark);
  std::for_each(running_.begin(), running_.end(), mark);
  changed_.notify_all();
}

void EchoEngine::finish(SequenceId sequence) {
  const std::lock_guard lock(mutex_);
  const auto mark = [sequence](Sequence& s) { s.cancelled |= s.job.sequence == sequence; };
  std::for_each(waiting_.begin(), waiting_.end(), mark);
  std::for_each(running_.begin(), running_.end(), mark);
  changed_.notify_all();
}

std::vector<Event> EchoEngine::wait_events(std::chrono::milliseconds timeout) {
  return outbox_.pop_all(timeout);
}

EngineStats EchoEngine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = totals_;
  const auto now = Clock::now();
  stats.ready = is_ready(now) && !stopping_;
  stats.draining = draining_;
  stats.running = static_cast<int32_t>(running_.size());
  stats.waiting = static_cast<int32_t>(waiting_.size());
  stats.sequences_max = options_.max_queued_requests + options_.max_running_requests;
  if (!idle()) {
    stats.last_step_age = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_step_);
  }
  stats.kv_tokens_max = options_.model.context_tokens * options_.max_running_requests;
  for (const Sequence& sequence : running_) {
    stats.kv_tokens_used += sequence.prompt_tokens() + sequence.said;
  }
  return stats;
}

EngineDetails EchoEngine::details() const {
  const std::lock_guard lock(mutex_);
  int64_t cached = 0;
  for (const CachedPrompt& prompt : cache_) {
    cached += static_cast<int64_t>(prompt.tokens.size() * sizeof(Token));
  }
  EngineDetails details;
  details.memory.push_back({.item = "cached prompts", .measured_bytes = cached});
  return details;
}

Status EchoEngine::flush_cache() {
  const std::lock_guard lock(mutex_);
  if (stopping_ || !is_ready(Clock::now())) {
    return Error{ErrorCode::unavailable, "[engine] there is no model whose cache to flush", {}};
  }
  cache_.clear();
  return {};
}

Status EchoEngine::wait_until_ready(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::unique_lock lock(mutex_);
  const bool stopped =
      changed_.wait_until(lock, std::min(deadline, ready_at_), [&] { return stopping_; });
  if (stopped) {
    return Error{ErrorCode::unavailable, "[engine] stopped before the model was ready", {}};
  }
  if (!is_ready(Clock::now())) {
    return Error{ErrorCode::timeout,
                 fmt::format("[engine] the model did not load within {} ms", timeout.count()),
                 {}};
  }
  return {};
}

void EchoEngine::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void EchoEngine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void EchoEngine::run() {
  if (options_.trace != nullptr) {
    options_.trace->name_thread("engine");
  }
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !idle(); });
    if (stopping_) {
      break;
    }
    const bool spoke = step(lock);
    pause(lock, spoke ? options_.token_delay
                      : std::max(options_.token_delay, std::chrono::milliseconds(1)));
  }
  for (const Sequence& sequence : running_) {
    end(sequence, FinishReason::cancelled);
  }
  for (const Sequence& sequence : waiting_) {
    end(sequence, FinishReason::cancelled);
  }
  running_.clear();
  waiting_.clear();
  outbox_.close();
}

bool EchoEngine::step(std::unique_lock<std::mutex>& lock) {
  last_step_ = Clock::now();
  const StepBounds bounds(options_.trace, ++totals_.steps);
  telemetry::TraceSpan span(options_.trace, "step");
  span.arg("step", totals_.steps);
  admit();
  span.arg("rows", static_cast<int64_t>(running_.size()));
  std::vector<Event> events;
  try {
    const telemetry::TraceSpan run_span(options_.trace, "run");
    hang_where_scripted(lock);
    for (Sequence& sequence : running_) {
      speak(sequence, events);
    }
  } catch (const std::exception& fault) {
    fail_step(fault.what());
    return true;
  }
  const bool spoke = !events.empty();
  publish(std::move(events));
  return spoke;
}

void EchoEngine::pause(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds time) {
  if (time.count() > 0) {
    changed_.wait_for(lock, time, [&] { return stopping_; });
  } else {
    lock.unlock();  // lets submit() and cancel() in between two steps
    std::this_thread::yield();
    lock.lock();
  }
}

void EchoEngine::admit() {
  const telemetry::TraceSpan span(options_.trace, "plan");
  drop_cancelled();
  while (!waiting_.empty() &&
         running_.size() < static_cast<size_t>(options_.max_running_requests)) {
    auto next = waiting_.begin();
    if (options_.by_priority) {
      next = std::max_element(next, waiting_.end(), [](const Sequence& a, const Sequence& b) {
        return a.job.priority < b.job.priority;  // the first of the largest
      });
    }
    next->cached_tokens = find_cached(*next);
    remember(*next);
    totals_.cached_tokens_total += next->cached_tokens;
    totals_.prompt_tokens_total += next->prompt_tokens() - next->cached_tokens;
    running_.push_back(std::move(*next));
    waiting_.erase(next);
  }
}

int32_t EchoEngine::find_cached(const Sequence& sequence) const {
  std::ptrdiff_t longest = 0;
  for (const CachedPrompt& earlier : cache_) {
    if (earlier.cache_namespace == sequence.job.cache_namespace) {
      const auto differs = std::mismatch(sequence.prompt.begin(), sequence.prompt.end(),
                                         earlier.tokens.begin(), earlier.tokens.end());
      longest = std::max(longest, differs.first - sequence.prompt.begin());
    }
  }
  // What is scored is computed, and so is the last token, whose logits say what follows.
  const int32_t from = sequence.job.score_from;
  const int32_t most = from < 0 ? sequence.prompt_tokens() - 1 : std::max(0, from - 1);
  const int32_t found = std::min(static_cast<int32_t>(longest), most);
  return found - found % options_.page_tokens;
}

void EchoEngine::remember(const Sequence& sequence) {
  cache_.push_back({sequence.job.cache_namespace, sequence.prompt});
  if (cache_.size() > options_.cached_prompts_max) {
    totals_.evicted_tokens_total += static_cast<int64_t>(cache_.front().tokens.size());
    cache_.pop_front();
  }
}

void EchoEngine::hang_where_scripted(std::unique_lock<std::mutex>& lock) {
  for (const Sequence& sequence : running_) {
    if (sequence.script.hang_at == sequence.said) {
      changed_.wait_for(lock, sequence.script.hang, [&] { return stopping_; });
      return;
    }
  }
}

void EchoEngine::publish(std::vector<Event> events) {
  const telemetry::TraceSpan span(options_.trace, "commit");
  for (Event& event : events) {
    const bool last = event.finish != FinishReason::none;
    totals_.generated_tokens_total += static_cast<int64_t>(event.tokens.size());
    totals_.finished_total += last ? 1 : 0;
    if (last) {
      std::erase_if(running_, [&](const Sequence& s) { return s.job.sequence == event.sequence; });
    }
    rated_tokens_ += static_cast<int64_t>(event.tokens.size());
    outbox_.push_unbounded(std::move(event));
  }
  const std::chrono::duration<double> rated = last_step_ - rated_at_;
  if (rated.count() >= 1.0) {
    const bool paused = rated.count() > 5.0;  // nothing was asked for in between
    if (!paused) {
      totals_.last_generated_tokens_per_s = static_cast<double>(rated_tokens_) / rated.count();
    }
    rated_at_ = last_step_;
    rated_tokens_ = 0;
  }
}

Event EchoEngine::event_of(const Sequence& sequence) const {
  return {.request = sequence.job.request,
          .sequence = sequence.job.sequence,
          .prompt_tokens = sequence.prompt_tokens(),
          .cached_tokens = sequence.cached_tokens,
          .completion_tokens = sequence.said};
}

void EchoEngine::speak(Sequence& sequence, std::vector<Event>& events) {
  const Job& job = sequence.job;
  const EchoScript& script = sequence.script;
  if (Clock::now() < sequence.speaks_at) {
    return;
  }
  if (script.throw_at == sequence.said) {
    throw std::runtime_error("[echo] scripted exception in the step");
  }
  if (script.fail_at == sequence.said) {
    Event event = event_of(sequence);
    event.finish = FinishReason::error;
    event.error = script.error;
    events.push_back(std::move(event));
    return;
  }
  if (sequence.scored < sequence.prompt_tokens() || job.max_tokens == 0) {
    score(sequence, events);
    return;
  }
  const auto index = static_cast<size_t>(sequence.said);
  const bool eos_allowed = !job.ignore_eos && sequence.said >= job.sampling.min_tokens;
  const Token token = index >= script.tokens.size() && eos_allowed
                          ? options_.model.eos_tokens.front()
                          : script.tokens[index % script.tokens.size()];
  ++sequence.said;
  Event event = event_of(sequence);
  event.tokens.push_back(job.top_logprobs < 0 ? TokenOutput{.token = token}
                                              : scored(token, job, options_.model.vocab_tokens));
  if (contains(job.stop_tokens, token) ||
      (eos_allowed && contains(options_.model.eos_tokens, token))) {
    event.finish = FinishReason::stop_token;
    event.matched_stop = token;
  } else if (sequence.said >= job.max_tokens) {
    event.finish = FinishReason::length;
  }
  events.push_back(std::move(event));
}

void EchoEngine::score(Sequence& sequence, std::vector<Event>& events) {
  const Job& job = sequence.job;
  const int32_t end = std::min(sequence.scored + kScoresPerStep, sequence.prompt_tokens());
  Event event = event_of(sequence);
  event.score_position = sequence.scored;
  for (int32_t position = sequence.scored; position < end; ++position) {
    event.prompt_scores.push_back(
        scored(sequence.prompt[static_cast<size_t>(position)], job, options_.model.vocab_tokens));
  }
  sequence.scored = std::max(end, sequence.scored);
  if (job.max_tokens == 0 && end == sequence.prompt_tokens()) {
    event.finish = FinishReason::length;
  }
  events.push_back(std::move(event));
}

void EchoEngine::drop_cancelled() {
  const auto end_if_cancelled = [this](const Sequence& sequence) {
    if (sequence.cancelled) {
      end(sequence, FinishReason::cancelled);
    }
    return sequence.cancelled;
  };
  std::erase_if(running_, end_if_cancelled);
  std::erase_if(waiting_, end_if_cancelled);
}

void EchoEngine::fail_step(const char* what) {
  ++totals_.failed_steps;
  for (const Sequence& sequence : running_) {
    Event event = event_of(sequence);
    event.finish = FinishReason::error;
    event.error = {ErrorCode::internal, what, {}};
    outbox_.push_unbounded(std::move(event));
    ++totals_.finished_total;
  }
  running_.clear();
}

void EchoEngine::end(const Sequence& sequence, FinishReason reason) {
  Event event = event_of(sequence);
  event.finish = reason;
  outbox_.push_unbounded(std::move(event));
  ++totals_.cancelled_total;
}

}  // namespace pome::engine
