#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "engine/api.h"
#include "telemetry/trace.h"

namespace pome::engine {

// What one sequence does instead of echoing its prompt. Indices count output tokens from 0.
struct EchoScript {
  std::vector<Token> tokens =
      {};  // said in order, then EOS; empty: the prompt, as without a script
  std::chrono::milliseconds start_delay{0};  // before the first token, as a prefill would take
  std::optional<int32_t> fail_at = {};       // the sequence ends here with `error`
  Error error{ErrorCode::internal, "[echo] scripted failure", {}};
  std::optional<int32_t> throw_at =
      {};  // the step throws here: all of its sequences fail with `internal`
  std::optional<int32_t> hang_at = {};  // the step hangs here for `hang`, or until stop()
  std::chrono::milliseconds hang{0};
};

// Scripts for the jobs in the order of their submission; jobs past the end echo.
std::function<std::optional<EchoScript>(const Job&)> scripts_in_order(
    std::vector<EchoScript> scripts);

struct EchoOptions {
  ModelInfo model{.name = "echo",
                  .path = "echo",
                  .architecture = "echo",
                  .format = "none",
                  .vocab_tokens = 257,
                  .context_tokens = 8192,
                  .eos_tokens = {256},
                  .backend = "none"};
  int32_t max_running_requests = 8;
  int32_t max_queued_requests = 64;          // waiting beyond those that run
  std::chrono::milliseconds token_delay{0};  // between two steps
  std::chrono::milliseconds ready_delay{
      0};                          // `ready` is false and jobs are refused for so long after start
  bool by_priority = false;        // larger Job::priority runs first; else in order of arrival
  int32_t page_tokens = 16;        // a prefix is found in whole pages, as a paged cache would
  size_t cached_prompts_max = 64;  // remembered for cached_tokens, the oldest is forgotten; 0: none
  telemetry::Trace* trace = nullptr;                                     // outlives the engine
  std::function<std::optional<EchoScript>(const Job&)> script_for = {};  // called under submit()
};

// An engine that says its prompt back; README.md has the rules. One own thread, started by the
// constructor and joined by stop() or the destructor; every method may be called from any thread.
class EchoEngine final : public Engine {
 public:
  explicit EchoEngine(EchoOptions options = {});
  ~EchoEngine() override;

  Status submit(Job job) override;
  void cancel(RequestId request) override;
  void finish(SequenceId sequence) override;
  std::vector<Event> wait_events(std::chrono::milliseconds timeout) override;
  // Until it is ready only name and path are known, as with an engine that loads weights.
  const ModelInfo& model() const override {
    return is_ready(Clock::now()) ? options_.model : unloaded_;
  }
  EngineStats stats() const override;
  EngineDetails details() const override;
  Status flush_cache() override;
  Status wait_until_ready(std::chrono::milliseconds timeout) override;
  std::vector<std::string> memory_lines() const override { return {}; }
  void drain() override;
  void stop() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Sequence {
    Job job;
    EchoScript script;
    std::vector<Token> prompt;
    int32_t cached_tokens = 0;
    int32_t said = 0;
    int32_t scored = 0;  // the next prompt position to score; the prompt's length when none is left
    bool cancelled = false;
    Clock::time_point speaks_at;

    int32_t prompt_tokens() const { return static_cast<int32_t>(prompt.size()); }
  };
  struct CachedPrompt {
    std::string cache_namespace;
    std::vector<Token> tokens;
  };

  void run();
  // One token for every sequence that runs; false when none spoke.
  bool step(std::unique_lock<std::mutex>& lock);
  void pause(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds time);
  void admit();
  // Whole pages that an earlier prompt of the namespace begins with too; never the last token.
  int32_t find_cached(const Sequence& sequence) const;
  void remember(const Sequence& sequence);
  void hang_where_scripted(std::unique_lock<std::mutex>& lock);
  void publish(std::vector<Event> events);
  Event event_of(const Sequence& sequence) const;
  // Appends one token's event, or the event of its scripted failure; throws where the script says
  // so.
  void speak(Sequence& sequence, std::vector<Event>& events);
  // Appends the event of the next prompt positions; the last one where nothing is to be said.
  void score(Sequence& sequence, std::vector<Event>& events);
  void drop_cancelled();
  void fail_step(const char* what);
  void end(const Sequence& sequence, FinishReason reason);
  bool idle() const { return waiting_.empty() && running_.empty(); }
  bool is_ready(Clock::time_point now) const { return now >= ready_at_; }

  const EchoOptions options_;
  const ModelInfo unloaded_;  // what model() says before it is ready
  const Clock::time_point ready_at_;
  BoundedQueue<Event> outbox_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Sequence> waiting_;
  std::vector<Sequence> running_;
  std::deque<CachedPrompt> cache_;  // oldest first
  bool draining_ = false;
  bool stopping_ = false;
  EngineStats totals_;
  Clock::time_point last_step_;
  Clock::time_point rated_at_;  // since when rated_tokens_ have been said
  int64_t rated_tokens_ = 0;

  std::thread thread_;
};

}  // namespace pome::engine
