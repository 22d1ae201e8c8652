#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "engine/api.h"

namespace pome::apps {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// What came of one sequence, and when.
struct EngineAnswer {
  Clock::time_point sent = {};
  std::vector<Clock::time_point> tokens = {};  // the moment at which each arrived
  int32_t cached_tokens = 0;
  bool ended = false;

  double first_token_s() const { return seconds_between(sent, tokens.front()); }
};

// An engine in this process and the one thread that listens to it, as a server would. Ends the
// process with a message when a job is refused or fails: then there is nothing to measure.
class EngineClient {
 public:
  // Waits until the engine is ready.
  static Result<std::unique_ptr<EngineClient>> start(std::unique_ptr<engine::Engine> engine);
  ~EngineClient();

  // Greedy, and no token ends it early.
  SequenceId send(std::vector<Token> prompt, int32_t max_tokens);
  // The job as it is, with ids of this client's.
  SequenceId send(engine::Job job);
  // Until it has said so many tokens, or has ended.
  void wait_tokens(SequenceId sequence, size_t tokens);
  // Until it has ended; then it is forgotten.
  EngineAnswer wait(SequenceId sequence);
  EngineAnswer look(SequenceId sequence) const;
  void cancel(SequenceId sequence);
  // And waits until the engine has done it.
  void flush_cache();

  const engine::ModelInfo& model() const { return engine_->model(); }
  engine::EngineStats stats() const { return engine_->stats(); }
  engine::EngineDetails details() const { return engine_->details(); }

 private:
  explicit EngineClient(std::unique_ptr<engine::Engine> engine);
  void listen();
  void hear(const engine::Event& event, Clock::time_point now);

  const std::unique_ptr<engine::Engine> engine_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable heard_;
  std::map<SequenceId, EngineAnswer> answers_;
  uint64_t last_id_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// Tokens spread over the vocabulary; the same for the same `variant`.
std::vector<Token> made_up_prompt(int32_t tokens, uint32_t variant, int32_t vocab_tokens);

}  // namespace pome::apps
