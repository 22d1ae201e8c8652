#include "client.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace pome::bench {
namespace {

[[noreturn]] void give_up(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  std::_Exit(1);
}

}  // namespace

Result<std::unique_ptr<Client>> Client::start(const engine::EngineOptions& options) {
  std::unique_ptr<Client> client(new Client(options));
  POME_TRY(client->engine_.wait_until_ready(std::chrono::minutes(10)));
  return client;
}

Client::Client(const engine::EngineOptions& options)
    : engine_(options), thread_([this] { listen(); }) {}

Client::~Client() {
  engine_.stop();
  stopping_ = true;
  thread_.join();
}

SequenceId Client::send(std::vector<Token> prompt, int32_t max_tokens) {
  engine::Job job;
  job.segments = {{.tokens = std::move(prompt)}};
  job.max_tokens = max_tokens;
  job.ignore_eos = true;
  job.sampling.temperature = 0.0f;
  {
    const std::lock_guard lock(mutex_);
    job.request = RequestId{++last_id_};
    job.sequence = SequenceId{last_id_};
    answers_[job.sequence].sent = Clock::now();
  }
  const SequenceId sequence = job.sequence;
  if (const Status status = engine_.submit(std::move(job)); !status) {
    give_up(status.error());
  }
  return sequence;
}

void Client::wait_tokens(SequenceId sequence, size_t tokens) {
  std::unique_lock lock(mutex_);
  const Answer& answer = answers_.at(sequence);
  heard_.wait(lock, [&] { return answer.ended || answer.tokens.size() >= tokens; });
}

Answer Client::wait(SequenceId sequence) {
  std::unique_lock lock(mutex_);
  const auto found = answers_.find(sequence);
  heard_.wait(lock, [&] { return found->second.ended; });
  Answer answer = std::move(found->second);
  answers_.erase(found);
  return answer;
}

Answer Client::look(SequenceId sequence) const {
  const std::lock_guard lock(mutex_);
  return answers_.at(sequence);
}

void Client::cancel(SequenceId sequence) {
  engine_.finish(sequence);
}

void Client::flush_cache() {
  if (const Status status = engine_.flush_cache(); !status) {
    give_up(status.error());
  }
  wait(send({0}, 1));  // the inbox is taken in order
}

void Client::listen() {
  while (!stopping_) {
    const std::vector<engine::Event> events = engine_.wait_events(std::chrono::milliseconds(100));
    const Clock::time_point now = Clock::now();
    {
      const std::lock_guard lock(mutex_);
      for (const engine::Event& event : events) {
        hear(event, now);
      }
    }
    heard_.notify_all();
  }
}

void Client::hear(const engine::Event& event, Clock::time_point now) {
  if (event.finish == engine::FinishReason::error) {
    give_up(event.error);
  }
  const auto found = answers_.find(event.sequence);
  if (found == answers_.end()) {
    return;
  }
  Answer& answer = found->second;
  answer.tokens.insert(answer.tokens.end(), event.tokens.size(), now);
  answer.cached_tokens = event.cached_tokens;
  answer.ended = event.finish != engine::FinishReason::none;
}

std::vector<Token> made_up_prompt(int32_t tokens, uint32_t variant, int32_t vocab_tokens) {
  std::vector<Token> prompt;
  uint32_t state = 12345u + variant * 2654435761u;
  for (int32_t i = 0; i < tokens; ++i) {
    state = state * 1664525u + 1013904223u;
    prompt.push_back(static_cast<Token>((state >> 8) % static_cast<uint32_t>(vocab_tokens)));
  }
  return prompt;
}

}  // namespace pome::bench
