#include "server/generation/dispatcher.h"

#include <chrono>
#include <set>

#include "server/generation/generation.h"

namespace pome::server {
namespace {

constexpr std::chrono::milliseconds kWait{200};

}  // namespace

Dispatcher::Dispatcher(engine::Engine& engine) : engine_(engine) {
  thread_ = std::thread([this] { run(); });
}

Dispatcher::~Dispatcher() {
  stop();
}

void Dispatcher::add(SequenceId sequence, std::shared_ptr<Generation> generation) {
  const std::lock_guard lock(mutex_);
  if (generations_.empty()) {
    finish_rate_.note_work(FinishRate::Clock::now());
  }
  generations_.emplace(sequence, std::move(generation));
}

void Dispatcher::remove(SequenceId sequence) {
  const std::lock_guard lock(mutex_);
  generations_.erase(sequence);
}

size_t Dispatcher::sequence_count() const {
  const std::lock_guard lock(mutex_);
  return generations_.size();
}

int Dispatcher::seconds_until_places(int sequences) const {
  const std::lock_guard lock(mutex_);
  return finish_rate_.seconds_until(sequences, FinishRate::Clock::now());
}

void Dispatcher::name_request(const std::string& rid, RequestId request) {
  const std::lock_guard lock(mutex_);
  names_.emplace(rid, request);
}

void Dispatcher::forget_request(const std::string& rid, RequestId request) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = names_.equal_range(rid);
  for (auto it = begin; it != end; ++it) {
    if (it->second == request) {
      names_.erase(it);
      return;
    }
  }
}

int Dispatcher::abort(const std::string& rid) {
  std::vector<RequestId> found;
  {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = names_.equal_range(rid);
    for (auto it = begin; it != end; ++it) {
      found.push_back(it->second);
    }
  }
  for (const RequestId request : found) {
    engine_.cancel(request);
  }
  return static_cast<int>(found.size());
}

int Dispatcher::abort_all() {
  std::set<RequestId> found;  // a request may have two names
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [rid, request] : names_) {
      found.insert(request);
    }
  }
  for (const RequestId request : found) {
    engine_.cancel(request);
  }
  return static_cast<int>(found.size());
}

void Dispatcher::fail_all(const Error& error) {
  std::set<std::shared_ptr<Generation>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [sequence, generation] : generations_) {
      all.insert(generation);
    }
  }
  for (const auto& generation : all) {
    generation->fail(error);
  }
}

void Dispatcher::stop() {
  stopping_ = true;
  if (thread_.joinable()) {
    thread_.join();
  }
  // A generation takes its name back when it ends, so the lock must be free then.
  std::map<SequenceId, std::shared_ptr<Generation>> ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(generations_);
  }
}

void Dispatcher::run() {
  while (!stopping_) {
    const auto before = std::chrono::steady_clock::now();
    std::vector<engine::Event> events = engine_.wait_events(kWait);
    if (events.empty() && std::chrono::steady_clock::now() - before < kWait / 10) {
      // A stopped engine answers at once and with nothing.
      std::this_thread::sleep_for(kWait / 10);
    }
    for (engine::Event& event : events) {
      std::shared_ptr<Generation> generation;
      {
        const std::lock_guard lock(mutex_);
        const auto found = generations_.find(event.sequence);
        if (found == generations_.end()) {
          continue;
        }
        generation = found->second;
        if (event.finish != engine::FinishReason::none) {
          generations_.erase(found);
          finish_rate_.note_end(FinishRate::Clock::now());
        }
      }
      generation->on_event(std::move(event));
    }
  }
}

}  // namespace pome::server
