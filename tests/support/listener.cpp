#include "support/listener.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

namespace pome::engine {

Job job_of(uint64_t id, std::vector<Token> prompt, int32_t max_tokens) {
  Job job;
  job.request = RequestId{id};
  job.sequence = SequenceId{id};
  job.segments = {{std::move(prompt)}};
  job.max_tokens = max_tokens;
  job.sampling.temperature = 0.0f;
  return job;
}

void Listener::listen() {
  for (const Event& event : engine_.wait_events(std::chrono::milliseconds(100))) {
    const auto id = static_cast<uint64_t>(event.sequence);
    Heard& one = heard_[id];
    EXPECT_EQ(one.last.finish, FinishReason::none) << "an event after the last of " << id;
    for (const TokenOutput& output : event.tokens) {
      one.tokens.push_back(output.token);
      one.outputs.push_back(output);
      order_.push_back(id);
    }
    if (!event.prompt_scores.empty()) {
      EXPECT_EQ(event.completion_tokens, static_cast<int32_t>(event.tokens.size()))
          << "a score after the first token of " << id;
      if (one.scores.empty()) {
        one.scores_begin = event.score_position;
      }
      EXPECT_EQ(event.score_position, one.scores_begin + static_cast<int32_t>(one.scores.size()));
      one.scores.insert(one.scores.end(), event.prompt_scores.begin(), event.prompt_scores.end());
    }
    EXPECT_EQ(event.completion_tokens, static_cast<int32_t>(one.tokens.size()));
    one.last = event;
  }
}

const Heard& Listener::until_end(uint64_t id) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (heard_[id].last.finish == FinishReason::none) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "sequence " << id << " did not end";
      break;
    }
    listen();
  }
  return heard_[id];
}

const Heard& Listener::until_tokens(uint64_t id, size_t tokens) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (heard_[id].tokens.size() < tokens && heard_[id].last.finish == FinishReason::none) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "sequence " << id << " said too little";
      break;
    }
    listen();
  }
  return heard_[id];
}

}  // namespace pome::engine
