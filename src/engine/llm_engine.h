#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "engine/api.h"
#include "engine/engine_options.h"
#include "engine/memory/memory_plan.h"

namespace pome::engine {

class TokenLane;
struct StepOutcome;

// The engine behind a real model. The constructor returns at once; an own thread loads the model,
// generates one token to warm up, and then serves until stop(). Jobs are refused with `unavailable`
// until then. Every method may be called from any thread.
class LlmEngine final : public Engine {
 public:
  // Loads options.model_path.
  explicit LlmEngine(EngineOptions options);
  LlmEngine(EngineOptions options, ModelLoader loader);
  ~LlmEngine() override;

  Status submit(Job job) override;
  void cancel(RequestId request) override;
  void finish(SequenceId sequence) override;
  std::vector<Event> wait_events(std::chrono::milliseconds timeout) override;
  // Only name and path until ready; the reference stays valid.
  const ModelInfo& model() const override { return *model_.load(std::memory_order_acquire); }
  EngineStats stats() const override;
  EngineDetails details() const override;
  Status flush_cache() override;
  Status wait_until_ready(std::chrono::milliseconds timeout) override;
  std::vector<std::string> memory_lines() const override;
  void drain() override;
  void stop() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct CancelRequest {
    RequestId request{};
  };
  struct FinishSequence {
    SequenceId sequence{};
  };
  struct FlushCache {};
  using Message = std::variant<Job, CancelRequest, FinishSequence, FlushCache>;
  enum class State { loading, ready, failed, stopped };

  void run();
  std::unique_ptr<TokenLane> load();
  void serve(TokenLane& lane);
  void take(TokenLane& lane, Message message, std::vector<Event>& events);
  // The figures are noted before the events go out: who has seen an end sees it in the figures too.
  void note_lane(const TokenLane& lane);
  void note_step(const StepOutcome& outcome);
  void publish(std::vector<Event> events);
  void become(State state, Status status);
  void mark_progress();
  bool reserve_place();
  int32_t accepted_max() const;

  const EngineOptions options_;
  const ModelLoader loader_;
  const ModelInfo unloaded_;  // what model() says before the load
  ModelInfo loaded_;          // written once, before model_ points at it
  std::atomic<const ModelInfo*> model_;

  BoundedQueue<Message> inbox_;
  BoundedQueue<Event> outbox_;
  std::atomic<int32_t> unfinished_{0};  // accepted jobs without their last event
  std::atomic<bool> draining_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> progress_ns_{0};  // when a step last began or ended, or work last appeared

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable state_changed_;
  State state_ = State::loading;
  Status load_status_;
  MemoryPlan memory_plan_;
  int64_t idle_bytes_ = 0;  // of MLX
  EngineStats totals_;

  std::thread thread_;
};

}  // namespace pome::engine
