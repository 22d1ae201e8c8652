#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "engine/api.h"
#include "server/generation/finish_rate.h"

namespace pome::server {

class Generation;

// Takes the engine's events on one thread of its own and hands each to the generation of its
// sequence; draws ids; knows which client-given id is which request. Any thread.
class Dispatcher {
 public:
  explicit Dispatcher(engine::Engine& engine);
  ~Dispatcher();

  engine::Engine& engine() { return engine_; }

  RequestId next_request() { return RequestId{++requests_}; }
  SequenceId next_sequence() { return SequenceId{++sequences_}; }

  // Events of the sequence go to `generation` until its last one has come.
  void add(SequenceId sequence, std::shared_ptr<Generation> generation);
  void remove(SequenceId sequence);  // for a job that the engine refused
  size_t sequence_count() const;
  // When a refused request of so many sequences may find room: whole seconds for Retry-After.
  int seconds_until_places(int sequences) const;

  void name_request(const std::string& rid, RequestId request);
  void forget_request(const std::string& rid, RequestId request);

  // Cancels the requests of that name, or every one. How many were found.
  int abort(const std::string& rid);
  int abort_all();

  // Ends every generation with `error`, whatever the engine does later.
  void fail_all(const Error& error);

  void stop();

 private:
  void run();

  engine::Engine& engine_;
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> sequences_{0};
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::map<SequenceId, std::shared_ptr<Generation>> generations_;
  std::multimap<std::string, RequestId> names_;
  FinishRate finish_rate_;
  std::thread thread_;
};

}  // namespace pome::server
