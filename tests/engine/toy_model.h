#pragma once

#include <memory>
#include <vector>

#include "engine/engine_options.h"
#include "models/language_model.h"
#include "support/listener.h"

// A made-up model for tests; it is part of no program.
namespace pome::engine {

// It says (1 + sum of all tokens of the sequence so far) mod 60, reading the sum out of the KV
// pool; 59 is its EOS. A step with kToyThrows throws while its graph is built, one with
// kToyThrowsLate while it runs. The logits behind a kToyBreaks are NaN.
inline constexpr int32_t kToyVocabTokens = 64;
inline constexpr Token kToyEos = 59;
inline constexpr Token kToyThrows = 61;
inline constexpr Token kToyThrowsLate = 62;
inline constexpr Token kToyBreaks = 63;

ModelLoader toy_loader(int32_t context_tokens = 512);

// What the toy says to a prompt: up to `count` tokens, EOS included where it comes.
std::vector<Token> toy_answer(std::vector<Token> prompt, int32_t count, bool stop_at_eos = true);

// A prompt whose answer has at least `tokens` tokens before EOS; `variant` makes different ones.
std::vector<Token> toy_prompt(int32_t prompt_tokens, int32_t tokens, int32_t variant = 0);

}  // namespace pome::engine
