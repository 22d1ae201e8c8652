#include "engine/token_lane.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "engine/compute_device.h"
#include "engine/job_check.h"
#include "engine/steps/rehearsal.h"
#include "kernels/backend.h"
#include "kvpool/page_memory.h"

namespace pome::engine {
namespace {

// A longer step gains no speed and costs activations.
int32_t step_tokens_max(const EngineOptions& options, bool gpu) {
  const int32_t tokens =
      options.chunked_prefill_size > 0 ? options.chunked_prefill_size : (gpu ? 2048 : 512);
  return std::max(tokens, options.max_running_requests);
}

std::string served_name(const EngineOptions& options) {
  if (!options.served_model_name.empty()) {
    return options.served_model_name;
  }
  const std::filesystem::path path = options.model_path.has_filename()
                                         ? options.model_path.filename()
                                         : options.model_path.parent_path().filename();
  return path.empty() ? "model" : path.string();
}

// Plain operations keep copies: of the rows, their log softmax and its order.
int64_t scored_token_bytes(int32_t vocab_tokens) {
  return vocab_tokens * int64_t{sizeof(float)} * (kernels::own_cpu_kernels() ? 1 : 4);
}

MemoryDemand demand_of(const EngineOptions& options, const models::LanguageModelInfo& model,
                       kvcache::CacheSpec cache, bool gpu) {
  const bool in_place = kvpool::KvPool::appends_in_place(cache, options.kv_format);
  const int64_t attention = kvpool::KvPool::attention_bytes_max(
      cache, options.max_running_requests,
      options.context_length > 0 ? options.context_length : model.context_tokens);
  return {.weight_bytes = model.weight_bytes,
          .cache = std::move(cache),
          .hidden_size = model.hidden_size,
          .intermediate_size = model.intermediate_size,
          .vocab_tokens = model.vocab_tokens,
          .step_tokens_max = step_tokens_max(options, gpu),
          .max_running_requests = options.max_running_requests,
          .attention_bytes = attention,
          .scored_token_bytes = scored_token_bytes(model.vocab_tokens),
          .scored_tokens_wished = std::min(sampling::score_tokens_max(model.vocab_tokens),
                                           step_tokens_max(options, gpu)),
          .context_model = model.context_tokens,
          .context_wished = options.context_length,
          .kv_tokens_wished = options.max_total_tokens,
          .mlx_cache_bytes = options.mlx_cache_bytes,
          .pool_committed = !kernels::own_cpu_kernels() || !kvpool::PageMemory::commits_as_used(),
          .pool_copies = in_place ? 1 : 2};
}

// A ledger that cannot be used costs a warning and not the start.
void begin_plan(std::optional<MemoryLedger>& ledger) {
  const Status planning = ledger ? ledger->begin_plan() : Status();
  if (!planning) {
    log::warning("{}: other pome processes are not seen", planning.error().message);
    ledger.reset();
  }
}

std::optional<MemoryLedger> opened_ledger(const EngineOptions& options) {
  if (options.memory_ledger.empty()) {
    return std::nullopt;
  }
  auto opened = MemoryLedger::open(options.memory_ledger);
  if (!opened) {
    log::warning("{}: other pome processes are not seen", opened.error().message);
    return std::nullopt;
  }
  std::optional<MemoryLedger> ledger = std::move(*opened);
  begin_plan(ledger);
  return ledger;
}

void enter_plan(std::optional<MemoryLedger>& ledger, int64_t planned_bytes, bool loaded) {
  if (!ledger) {
    return;
  }
  const Status entered =
      ledger->enter({.process = ::getpid(), .planned_bytes = planned_bytes, .loaded = loaded});
  ledger->end_plan();
  if (!entered) {
    log::warning("{}: other pome processes do not see this one", entered.error().message);
  }
}

// Plans with what is free now, and what this process took since `start` counts as free.
Result<MemoryPlan> planned(const EngineOptions& options, const MemoryDemand& demand,
                           const OwnMemory& start, std::optional<MemoryLedger>& ledger) {
  const ComputeDevice device = compute_device(start);
  return plan_memory(demand, {.available_bytes = ledger ? bytes_left_by(ledger->others(), device)
                                                        : device.available_bytes,
                              .max_memory_bytes = options.max_memory_bytes,
                              .fraction_static = options.mem_fraction_static});
}

// What a load takes besides weights: the program's pages, tokenizer and scratch. It differs from
// start to start, and the same budget should give the same plan.
constexpr int64_t kLoadedBesides = int64_t{64} << 20;

// The plan by arithmetic comes first, so that what can never fit is refused before a step runs.
Result<MemoryPlan> measured_plan(const EngineOptions& options, MemoryDemand demand,
                                 std::shared_ptr<const models::LanguageModel> model,
                                 const OwnMemory& start, std::optional<MemoryLedger>& ledger) {
  auto plan = planned(options, demand, start, ledger);
  if (!plan) {
    return plan.error();
  }
  enter_plan(ledger, plan->planned_bytes(), /*loaded=*/false);
  const WorkSamples samples = rehearse(std::move(model), demand.cache, options.kv_format,
                                       static_cast<int32_t>(demand.max_running_requests));
  demand.work_measured = work_of_step(samples, demand.step_tokens_max, demand.max_running_requests);
  demand.queued_step_bytes = queued_step_bytes(samples);
  demand.weight_bytes = std::max(demand.weight_bytes, loaded_bytes(start) - kLoadedBesides);
  begin_plan(ledger);
  plan = planned(options, demand, start, ledger);
  if (plan) {
    enter_plan(ledger, plan->planned_bytes(), /*loaded=*/false);
  }
  return plan;
}

}  // namespace

kvcache::CacheSpec cache_spec_of(const models::LanguageModel& model, const EngineOptions& options,
                                 int32_t page_tokens) {
  return model.cache_spec(page_tokens, options.kv_format);
}

kvpool::KvPoolOptions pool_options(const EngineOptions& options, std::vector<int32_t> group_pages) {
  return {.group_pages = std::move(group_pages), .format = options.kv_format};
}

Result<std::unique_ptr<TokenLane>> TokenLane::load(const EngineOptions& options,
                                                   const ModelLoader& loader) {
  POME_TRY(check_options(options));
  POME_TRY(set_up_mlx(options));
  const OwnMemory start = own_memory();
  auto built = loader();
  if (!built) {
    return built.error();
  }
  const ComputeDevice device = compute_device(start);
  std::shared_ptr<const models::LanguageModel> model = std::move(*built);
  const models::LanguageModelInfo& about = model->info();
  kvcache::CacheSpec spec = cache_spec_of(*model, options, options.page_size);
  std::optional<MemoryLedger> ledger = opened_ledger(options);
  auto plan =
      measured_plan(options, demand_of(options, about, spec, device.gpu), model, start, ledger);
  if (!plan) {
    return plan.error();
  }
  ModelInfo info{.name = served_name(options),
                 .path = options.model_path.string(),
                 .architecture = about.architecture,
                 .format = about.format,
                 .vocab_tokens = about.vocab_tokens,
                 .context_tokens = static_cast<int32_t>(plan->context_tokens),
                 .eos_tokens = about.eos_tokens,
                 .backend = device.description};
  Loaded loaded{.model = std::move(model),
                .info = std::move(info),
                .plan = std::move(*plan),
                .ledger = std::move(ledger),
                .spec = std::move(spec),
                .step_tokens_max = step_tokens_max(options, device.gpu)};
  std::unique_ptr<TokenLane> lane(new TokenLane(options, std::move(loaded)));
  if (!options.record_steps.empty()) {
    POME_TRY(lane->recorder_.open(options.record_steps));
    lane->recorder_.write(RecordedPool{options.page_size, lane->plan_.group_pages});
  }
  return lane;
}

TokenLane::TokenLane(const EngineOptions& options, Loaded loaded)
    : options_(options),
      info_(std::move(loaded.info)),
      plan_(std::move(loaded.plan)),
      runner_(std::move(loaded.model), loaded.spec, pool_options(options, plan_.group_pages),
              options.trace),
      scheduler_(
          {.max_running_requests = options.max_running_requests,
           .max_queued_requests = options.max_queued_requests,
           .chunk_tokens_max = loaded.step_tokens_max,
           .scored_tokens_max = static_cast<int32_t>(plan_.scored_tokens_max),
           .policy = options.schedule_policy,
           .conservativeness = options.schedule_conservativeness,
           .cache =
               {.prefix_cache = !options.disable_radix_cache,
                .eviction = options.eviction,
                // On a GPU a step of sixteen tokens takes no longer than one of a single token.
                .copy_pages = kernels::own_cpu_kernels()}},
          loaded.spec, plan_.group_pages),
      budget_({.tokens_fixed = options.chunked_prefill_size, .tokens_max = loaded.step_tokens_max}),
      ledger_(std::move(loaded.ledger)),
      seeds_(options.random_seed ? *options.random_seed : std::random_device{}()) {}

Status TokenLane::warm_up() {
  Job job;
  job.request = RequestId{std::numeric_limits<uint64_t>::max()};
  job.sequence = SequenceId{std::numeric_limits<uint64_t>::max()};
  job.segments = {{{0, 0}}};
  job.max_tokens = 2;
  job.ignore_eos = true;
  job.sampling.temperature = 0.0f;
  std::vector<Event> events;
  add(std::move(job), events);
  while (!idle()) {
    StepOutcome outcome = step();
    for (const Event& event : outcome.events) {
      if (event.finish == FinishReason::error) {
        return event.error;
      }
    }
  }
  if (!events.empty()) {
    return events.front().error;
  }
  enter_plan(ledger_, plan_.planned_bytes(), /*loaded=*/true);
  mx::synchronize();
  mx::clear_cache();
  idle_bytes_ = static_cast<int64_t>(mx::get_active_memory());
  // MLX submits work ahead of the device; above its limit it waits for what runs before it
  // allocates one more array.
  mx::set_memory_limit(static_cast<size_t>(idle_bytes_ + plan_.step_bytes_limit));
  mx::reset_peak_memory();
  return {};
}

void TokenLane::add(Job job, std::vector<Event>& events) {
  const SequenceId id = job.sequence;
  scheduler::SequenceRequest request;
  request.sequence = id;
  for (const Segment& segment : job.segments) {
    request.prompt.insert(request.prompt.end(), segment.tokens.begin(), segment.tokens.end());
  }
  request.max_tokens = job.max_tokens;
  request.priority = job.priority;
  request.cache_namespace = job.cache_namespace;
  request.stop_tokens = job.stop_tokens;
  if (!job.ignore_eos) {
    request.stop_tokens.insert(request.stop_tokens.end(), info_.eos_tokens.begin(),
                               info_.eos_tokens.end());
  }
  // Every request has its seed from here on, so that its text does not depend on when it runs.
  const uint64_t seed = job.sampling.seed ? *job.sampling.seed : seeds_();
  const auto prompt_tokens = static_cast<int32_t>(request.prompt.size());
  request.score_from = job.score_from;
  sampling::SequenceState state(job.sampling, seed, request.prompt, request.stop_tokens,
                                {.top = job.top_logprobs, .requested = job.logprob_tokens});
  if (live_.contains(id) || scheduler_.find(id) != nullptr) {
    events.push_back({.request = job.request,
                      .sequence = id,
                      .finish = FinishReason::error,
                      .error = invalid("[engine] a sequence with this id is already running"),
                      .prompt_tokens = prompt_tokens});
    return;
  }
  live_.emplace(id,
                Live{.request = job.request,
                     .prompt_tokens = prompt_tokens,
                     .scored_prompt = job.score_from >= 0 ? request.prompt : std::vector<Token>(),
                     .sampling = std::move(state)});
  if (recorder_.is_open()) {
    recorder_.write(RecordedSequence{.sequence = id,
                                     .prompt = request.prompt,
                                     .stop_tokens = request.stop_tokens,
                                     .seed = seed,
                                     .sampling = job.sampling});
  }
  if (Status status = scheduler_.submit(std::move(request)); !status) {
    Event event = close(id, FinishReason::error);
    event.error = status.error();
    events.push_back(std::move(event));
  }
}

void TokenLane::cancel(RequestId request, std::vector<Event>& events) {
  std::vector<SequenceId> sequences;
  for (const auto& [sequence, live] : live_) {
    if (live.request == request) {
      sequences.push_back(sequence);
    }
  }
  for (const SequenceId sequence : sequences) {
    finish(sequence, events);
  }
}

void TokenLane::finish(SequenceId sequence, std::vector<Event>& events) {
  if (const auto ended = scheduler_.abort(sequence)) {
    events.push_back(close(ended->sequence, FinishReason::cancelled));
  }
}

void TokenLane::cancel_all(std::vector<Event>& events) {
  while (!live_.empty()) {
    const size_t before = live_.size();
    finish(live_.begin()->first, events);
    CHECK(live_.size() < before, "a live sequence is known to the scheduler");
  }
}

Event TokenLane::event_of(SequenceId sequence, const Live& live) const {
  Event event;
  event.request = live.request;
  event.sequence = sequence;
  event.prompt_tokens = live.prompt_tokens;
  event.cached_tokens = live.cached_tokens.value_or(0);
  event.completion_tokens = live.completion_tokens;
  return event;
}

Event TokenLane::close(SequenceId sequence, FinishReason reason) {
  const auto live = live_.find(sequence);
  CHECK(live != live_.end(), "a sequence ends once");
  Event event = event_of(sequence, live->second);
  event.finish = reason;
  live_.erase(live);
  return event;
}

}  // namespace pome::engine
