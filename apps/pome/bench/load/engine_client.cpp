#include "pome/bench/load/engine_client.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace pome::apps {
namespace {

[[noreturn]] void give_up(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  std::_Exit(1);
}

}  // namespace

Result<std::unique_ptr<EngineClient>> EngineClient::start(std::unique_ptr<engine::Engine> engine) {
  std::unique_ptr<EngineClient> client(new EngineClient(std::move(engine)));
  POME_TRY(client->engine_->wait_until_ready(std::chrono::hours(1)));
  return client;
}

EngineClient::EngineClient(std::unique_ptr<engine::Engine> engine)
    : engine_(std::move(engine)), thread_([this] { listen(); }) {}

EngineClient::~EngineClient() {
  engine_->stop();
  stopping_ = true;
  thread_.join();
}

SequenceId EngineClient::send(std::vector<Token> prompt, int32_t max_tokens) {
  engine::Job job;
  job.segments = {{.tokens = std::move(prompt)}};
  job.max_tokens = max_tokens;
  job.ignore_eos = true;
  job.sampling.temperature = 0.0f;
  return send(std::move(job));
}

SequenceId EngineClient::send(engine::Job job) {
  {
    const std::lock_guard lock(mutex_);
    job.request = RequestId{++last_id_};
    job.sequence = SequenceId{last_id_};
    answers_[job.sequence].sent = Clock::now();
  }
  const SequenceId sequence = job.sequence;
  if (const Status status = engine_->submit(std::move(job)); !status) {
    give_up(status.error());
  }
  return sequence;
}

void EngineClient::wait_tokens(SequenceId sequence, size_t tokens) {
  std::unique_lock lock(mutex_);
  const EngineAnswer& answer = answers_.at(sequence);
  heard_.wait(lock, [&] { return answer.ended || answer.tokens.size() >= tokens; });
}

EngineAnswer EngineClient::wait(SequenceId sequence) {
  std::unique_lock lock(mutex_);
  const auto found = answers_.find(sequence);
  heard_.wait(lock, [&] { return found->second.ended; });
  EngineAnswer answer = std::move(found->second);
  answers_.erase(found);
  return answer;
}

EngineAnswer EngineClient::look(SequenceId sequence) const {
  const std::lock_guard lock(mutex_);
  return answers_.at(sequence);
}

void EngineClient::cancel(SequenceId sequence) {
  engine_->finish(sequence);
}

void EngineClient::flush_cache() {
  if (const Status status = engine_->flush_cache(); !status) {
    give_up(status.error());
  }
  wait(send({0}, 1));  // the inbox is taken in order
}

void EngineClient::listen() {
  while (!stopping_) {
    const std::vector<engine::Event> events = engine_->wait_events(std::chrono::milliseconds(100));
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

void EngineClient::hear(const engine::Event& event, Clock::time_point now) {
  if (event.finish == engine::FinishReason::error) {
    give_up(event.error);
  }
  const auto found = answers_.find(event.sequence);
  if (found == answers_.end()) {
    return;
  }
  EngineAnswer& answer = found->second;
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

}  // namespace pome::apps
