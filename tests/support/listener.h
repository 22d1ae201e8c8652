#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/api.h"

// How tests talk to an engine.
namespace pome::engine {

// A greedy job whose request and sequence have the same id.
Job job_of(uint64_t id, std::vector<Token> prompt, int32_t max_tokens = 32);

// What came of one sequence.
struct Heard {
  std::vector<Token> tokens = {};
  std::vector<TokenOutput> outputs = {};
  std::vector<TokenOutput> scores = {};  // of the prompt
  int32_t scores_begin = 0;              // the first one's position
  Event last = {};
};

// Collects events; expects none after a sequence's last.
class Listener {
 public:
  explicit Listener(Engine& engine) : engine_(engine) {}
  // Until sequence `id` has ended, or has said at least `tokens` tokens; fails the test after 30 s.
  const Heard& until_end(uint64_t id);
  const Heard& until_tokens(uint64_t id, size_t tokens);
  const Heard& operator[](uint64_t id) { return heard_[id]; }
  // Sequence ids in the order in which their events came, one for each token.
  const std::vector<uint64_t>& order() const { return order_; }

 private:
  void listen();
  Engine& engine_;
  std::map<uint64_t, Heard> heard_;
  std::vector<uint64_t> order_;
};

}  // namespace pome::engine
