#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/api.h"
#include "engine/engine_options.h"
#include "models/language_model.h"

// A made-up model for tests; it is part of no program.
namespace pome::engine {

// It says (1 + sum of all tokens of the sequence so far) mod 60, reading the sum out of the KV
// pool; 59 is its EOS. A step with kToyThrows throws while its graph is built, one with
// kToyThrowsLate while it runs.
inline constexpr int32_t kToyVocabTokens = 64;
inline constexpr Token kToyEos = 59;
inline constexpr Token kToyThrows = 61;
inline constexpr Token kToyThrowsLate = 62;

ModelLoader toy_loader(int32_t context_tokens = 512);

// What the toy says to a prompt: up to `count` tokens, EOS included where it comes.
std::vector<Token> toy_answer(std::vector<Token> prompt, int32_t count, bool stop_at_eos = true);

// A prompt whose answer has at least `tokens` tokens before EOS; `variant` makes different ones.
std::vector<Token> toy_prompt(int32_t prompt_tokens, int32_t tokens, int32_t variant = 0);

Job job_of(uint64_t id, std::vector<Token> prompt, int32_t max_tokens = 32);

// What came of one sequence.
struct Heard {
  std::vector<Token> tokens = {};
  std::vector<TokenOutput> outputs = {};
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
