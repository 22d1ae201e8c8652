#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "protocol/ollama/replies.h"
#include "server/generation/ordered_parts.h"

namespace pome::server {

// An answer as Ollama says it: thoughts and text piece by piece, each call once it is whole.
class SpokenAnswer {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    bool logprobs = false;
    bool tells_parts_apart = false;  // then log probabilities are the text's alone
    Clock::time_point arrived = {};  // the request
    Clock::time_point started = {};  // its generation
    // Where the conversation is wanted back: the prompt.
    std::optional<std::vector<Token>> context = {};
  };
  explicit SpokenAnswer(Options options) : options_(std::move(options)) {}

  // What the delta adds.
  protocol::ollama::Said add(const Delta& delta);
  // What was held back, when the last delta has come.
  protocol::ollama::Said finish();
  protocol::ollama::Ended ended(const Delta& last) const;

 private:
  void release_call(protocol::ollama::Said& said);
  void note_tokens(const Delta& delta);

  Options options_;
  OrderedParts parts_;
  std::optional<CallPiece> call_;  // that is being made
  int64_t calls_ = 0;              // that are whole
  std::optional<Clock::time_point> first_token_;
  Clock::time_point last_token_ = {};
};

}  // namespace pome::server
