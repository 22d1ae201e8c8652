#include "engine/llm_engine.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/log.h"
#include "engine/job_check.h"
#include "engine/memory/available_memory.h"
#include "engine/token_lane.h"
#include "kernels/counters.h"
#include "models/llm/load_model.h"
#include "telemetry/trace.h"

namespace pome::engine {
namespace {

constexpr std::chrono::hours kUntilWoken{24};

ModelLoader loader_of(const std::filesystem::path& path) {
  return [path] { return models::load_model(path); };
}

ModelInfo unloaded_info(const EngineOptions& options) {
  ModelInfo info;
  info.name = options.served_model_name.empty() ? options.model_path.filename().string()
                                                : options.served_model_name;
  info.path = options.model_path.string();
  return info;
}

json::object plan_details(const MemoryPlan& plan) {
  return {{"budget_bytes", plan.budget_bytes},
          {"planned_bytes", plan.planned_bytes()},
          {"kv_bytes_per_token", plan.kv_bytes_per_token},
          {"context_fits", plan.context_fits}};
}

// The planned items, and beside them what the allocators say now.
std::vector<MemoryFigure> memory_figures(const MemoryPlan& plan, int64_t kv_tokens,
                                         int64_t idle_bytes) {
  const auto peak = static_cast<int64_t>(mx::get_peak_memory());
  std::vector<MemoryFigure> figures;
  for (const MemoryItem& item : plan.items) {
    figures.push_back({.item = item.name, .planned_bytes = item.bytes});
    if (item.name == "MLX cache") {
      figures.back().measured_bytes = static_cast<int64_t>(mx::get_cache_memory());
    } else if (item.name == "activations") {
      figures.back().measured_bytes = std::max<int64_t>(0, peak - idle_bytes);  // at their most
    } else if (item.name.rfind("KV pool", 0) == 0) {
      figures.back().measured_bytes = kv_tokens * plan.kv_bytes_per_token;
    }
  }
  figures.push_back(
      {.item = "MLX active", .measured_bytes = static_cast<int64_t>(mx::get_active_memory())});
  figures.push_back({.item = "MLX peak", .measured_bytes = peak});
  figures.push_back({.item = "process",
                     .planned_bytes = plan.planned_bytes(),
                     .measured_bytes = occupied_memory_bytes()});
  return figures;
}

}  // namespace

LlmEngine::LlmEngine(EngineOptions options) : LlmEngine(options, loader_of(options.model_path)) {}

LlmEngine::LlmEngine(EngineOptions options, ModelLoader loader)
    : options_(std::move(options)),
      loader_(std::move(loader)),
      unloaded_(unloaded_info(options_)),
      model_(&unloaded_),
      inbox_(std::numeric_limits<size_t>::max()),    // its bound is accepted_max()
      outbox_(std::numeric_limits<size_t>::max()) {  // bounded by the jobs' max_tokens
  mark_progress();
  thread_ = std::thread([this] { run(); });
}

LlmEngine::~LlmEngine() {
  stop();
}

Status LlmEngine::wait_until_ready(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!state_changed_.wait_for(lock, timeout, [&] { return state_ != State::loading; })) {
    return Error{ErrorCode::timeout,
                 fmt::format("[engine] the model did not load within {} ms", timeout.count()),
                 {}};
  }
  return load_status_;
}

std::vector<std::string> LlmEngine::memory_lines() const {
  const std::lock_guard lock(mutex_);
  return memory_plan_.items.empty() ? std::vector<std::string>() : format_plan(memory_plan_);
}

Status LlmEngine::submit(Job job) {
  if (draining_ || stopping_) {
    return Error{ErrorCode::unavailable, "[engine] the server is shutting down", {}};
  }
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::loading) {
      return Error{ErrorCode::unavailable, "[engine] the model is still loading", {}};
    }
    if (state_ != State::ready) {
      return Error{ErrorCode::unavailable, "[engine] no model is loaded", {}};
    }
  }
  POME_TRY(check_job(job, model()));
  if (!reserve_place()) {
    return Error{
        ErrorCode::queue_full,
        fmt::format("[engine] {} requests run or wait, the most that "
                    "--max-running-requests {} and --max-queued-requests {} allow; try "
                    "again later",
                    accepted_max(), options_.max_running_requests, options_.max_queued_requests),
        {}};
  }
  if (!inbox_.push_unbounded(std::move(job))) {
    --unfinished_;
    return Error{ErrorCode::unavailable, "[engine] the server is shutting down", {}};
  }
  return {};
}

void LlmEngine::cancel(RequestId request) {
  inbox_.push_unbounded(CancelRequest{request});
}

void LlmEngine::finish(SequenceId sequence) {
  inbox_.push_unbounded(FinishSequence{sequence});
}

std::vector<Event> LlmEngine::wait_events(std::chrono::milliseconds timeout) {
  return outbox_.pop_all(timeout);
}

EngineStats LlmEngine::stats() const {
  EngineStats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = totals_;
    stats.ready = state_ == State::ready;
  }
  stats.draining = draining_;
  const int32_t unfinished = unfinished_;
  stats.waiting = std::max(0, unfinished - stats.running);
  stats.sequences_max = accepted_max();
  if (unfinished > 0) {
    const auto age = Clock::now().time_since_epoch() - std::chrono::nanoseconds(progress_ns_);
    stats.last_step_age = std::chrono::duration_cast<std::chrono::milliseconds>(age);
  }
  return stats;
}

EngineDetails LlmEngine::details() const {
  EngineDetails details;
  for (const kernels::VariantRuns& variant : kernels::all_variant_runs()) {
    if (variant.runs > 0) {
      details.kernel_runs.push_back({variant.name, static_cast<int64_t>(variant.runs)});
    }
  }
  const std::lock_guard lock(mutex_);
  if (state_ == State::ready) {
    details.memory = memory_figures(
        memory_plan_, int64_t{totals_.kv_tokens_used} + totals_.kv_tokens_cached, idle_bytes_);
    details.more["memory"] = plan_details(memory_plan_);
  }
  return details;
}

Status LlmEngine::flush_cache() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::ready) {
      return Error{ErrorCode::unavailable, "[engine] no model is running", {}};
    }
  }
  if (!inbox_.push_unbounded(FlushCache{})) {
    return Error{ErrorCode::unavailable, "[engine] the server is shutting down", {}};
  }
  return {};
}

void LlmEngine::drain() {
  draining_ = true;
}

void LlmEngine::stop() {
  stopping_ = true;
  inbox_.close();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void LlmEngine::run() {
  if (options_.trace != nullptr) {
    options_.trace->name_thread("engine");
  }
  {
    std::unique_ptr<TokenLane> lane = load();
    if (lane) {
      serve(*lane);
    }
    while (!stopping_) {  // nothing was loaded: the error is there to be read
      inbox_.pop_all(kUntilWoken);
    }
  }  // the model goes on the thread that built it
  std::vector<Event> rest;
  for (Message& message : inbox_.pop_all(std::chrono::milliseconds(0))) {
    if (const Job* job = std::get_if<Job>(&message)) {
      rest.push_back({.request = job->request,
                      .sequence = job->sequence,
                      .finish = FinishReason::cancelled,
                      .prompt_tokens = static_cast<int32_t>(prompt_token_count(*job))});
    }
  }
  publish(std::move(rest));
  mx::synchronize();
  mx::clear_cache();
  mx::clear_streams();
  outbox_.close();
}

std::unique_ptr<TokenLane> LlmEngine::load() {
  try {
    auto lane = TokenLane::load(options_, loader_);
    if (!lane) {
      become(State::failed, lane.error());
      return nullptr;
    }
    if (Status warm = (*lane)->warm_up(); !warm) {
      become(State::failed, warm);
      return nullptr;
    }
    loaded_ = (*lane)->model();
    model_.store(&loaded_, std::memory_order_release);
    {
      const std::lock_guard lock(mutex_);
      memory_plan_ = (*lane)->memory_plan();
      idle_bytes_ = (*lane)->idle_bytes();
      totals_.kv_tokens_max = static_cast<int32_t>(memory_plan_.kv_tokens_max);
    }
    become(State::ready, {});
    return std::move(*lane);
  } catch (const std::exception& fault) {
    become(
        State::failed,
        Error{ErrorCode::internal, fmt::format("[engine] loading failed: {}", fault.what()), {}});
    return nullptr;
  }
}

void LlmEngine::serve(TokenLane& lane) {
  while (!stopping_) {
    const bool idle = lane.idle();
    if (idle) {
      lane.check_integrity();
    }
    std::vector<Message> messages = inbox_.pop_all(idle ? std::chrono::milliseconds(kUntilWoken)
                                                        : std::chrono::milliseconds(0));
    std::vector<Event> events;
    for (Message& message : messages) {
      take(lane, std::move(message), events);
    }
    note_lane(lane);
    publish(std::move(events));
    if (stopping_) {
      break;
    }
    mark_progress();
    StepOutcome outcome = lane.step();
    mark_progress();
    note_lane(lane);
    note_step(outcome);
    publish(std::move(outcome.events));
  }
  std::vector<Event> events;
  lane.cancel_all(events);
  note_lane(lane);
  publish(std::move(events));
  become(State::stopped, {});
}

void LlmEngine::take(TokenLane& lane, Message message, std::vector<Event>& events) {
  if (auto* job = std::get_if<Job>(&message)) {
    lane.add(std::move(*job), events);
  } else if (const auto* cancelled = std::get_if<CancelRequest>(&message)) {
    lane.cancel(cancelled->request, events);
  } else if (const auto* finished = std::get_if<FinishSequence>(&message)) {
    lane.finish(finished->sequence, events);
  } else {
    lane.flush_cache();
  }
}

void LlmEngine::publish(std::vector<Event> events) {
  for (Event& event : events) {
    if (event.finish != FinishReason::none) {
      {
        const std::lock_guard lock(mutex_);
        const bool cancelled = event.finish == FinishReason::cancelled;
        ++(cancelled ? totals_.cancelled_total : totals_.finished_total);
      }
      --unfinished_;
    }
    outbox_.push_unbounded(std::move(event));
  }
}

void LlmEngine::note_lane(const TokenLane& lane) {
  const scheduler::SchedulerStats scheduler = lane.stats();
  const std::lock_guard lock(mutex_);
  totals_.running = scheduler.running;
  totals_.kv_tokens_used = static_cast<int32_t>(scheduler.tokens_used);
  totals_.kv_tokens_cached = static_cast<int32_t>(scheduler.tokens_cached);
  totals_.retracted_total = scheduler.retracted_total;
  totals_.evicted_tokens_total = scheduler.evicted_tokens_total;
}

void LlmEngine::note_step(const StepOutcome& outcome) {
  if (outcome.rows == 0) {
    return;
  }
  const std::lock_guard lock(mutex_);
  ++totals_.steps;
  totals_.prompt_tokens_total += outcome.prompt_tokens;
  totals_.cached_tokens_total += outcome.cached_tokens;
  totals_.generated_tokens_total += outcome.generated_tokens;
  if (outcome.failed) {
    ++totals_.failed_steps;
    log::error("step {} failed: {} requests ended with an error", totals_.steps,
               outcome.events.size());
  }
  const double seconds = std::chrono::duration<double>(outcome.duration).count();
  if (outcome.generated_tokens > 0 && outcome.prompt_tokens == 0 && seconds > 0.0) {
    constexpr double kWeight = 0.1;
    const double rate = outcome.generated_tokens / seconds;
    double& shown = totals_.last_generated_tokens_per_s;
    shown = shown == 0.0 ? rate : shown + kWeight * (rate - shown);
  }
}

void LlmEngine::become(State state, Status status) {
  const std::lock_guard lock(mutex_);
  state_ = state;
  load_status_ = std::move(status);
  state_changed_.notify_all();
}

void LlmEngine::mark_progress() {
  progress_ns_ =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

bool LlmEngine::reserve_place() {
  int32_t unfinished = unfinished_;
  do {
    if (unfinished >= accepted_max()) {
      return false;
    }
    if (unfinished == 0) {
      mark_progress();  // the age counts from when there was something to do
    }
  } while (!unfinished_.compare_exchange_weak(unfinished, unfinished + 1));
  return true;
}

int32_t LlmEngine::accepted_max() const {
  return options_.max_running_requests + options_.max_queued_requests;
}

}  // namespace pome::engine
