#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/answer/answer_parser.h"

namespace pome::server {

struct TokenPiece {
  Token token = 0;
  float logprob = 0.0f;
  std::string bytes = {};  // as it appears in text; may be a part of a character
};

// One token of the output or of a scored prompt. Logprobs and bytes are filled when the request
// asked for them.
struct OutputToken {
  TokenPiece chosen = {};
  std::vector<TokenPiece> top = {};
  std::vector<TokenPiece> requested = {};
  bool is_stop = false;  // the token that ended the output; not a part of the text
  bool hidden = false;   // adds nothing to the text: such a token, or a control token left out
};

enum class Finish { none, stop, length, abort, error };

// "stop", "length", "abort"; empty for none and for errors, which have a form of their own.
inline std::string finish_name(Finish finish) {
  switch (finish) {
    case Finish::stop:
      return "stop";
    case Finish::length:
      return "length";
    case Finish::abort:
      return "abort";
    case Finish::none:
    case Finish::error:
      break;
  }
  return {};
}

// What a delta adds to one call. Id and name come with its first piece only.
struct CallPiece {
  int32_t call = 0;  // among the choice's
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // the pieces together are one JSON object
};

// What one step, or several, added to one choice.
struct Delta {
  int32_t choice = 0;
  std::string text = {};       // whole code points
  std::string reasoning = {};  // where the request wants it told apart, and calls likewise
  std::vector<CallPiece> calls = {};
  std::vector<text::AnswerRun> order = {};  // how these three followed each other
  bool has_called = false;                  // a whole call has been made, now or before
  std::vector<OutputToken> tokens = {};
  // With log probabilities, where parts are told apart: the tokens of the text, once that is known.
  std::vector<OutputToken> text_tokens = {};
  // With a choice's first delta: the prompt's scored tokens, from position max(score_from, 1) on.
  std::vector<OutputToken> prompt_scores = {};
  Finish finish = Finish::none;
  std::variant<std::monostate, Token, std::string> matched_stop = {};
  Error error = {};  // for Finish::error
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t completion_tokens = 0;                  // so far; the token that ended the output counts
  int32_t reasoning_tokens = 0;                   // of those
  std::chrono::steady_clock::time_point at = {};  // when the engine's event came
};

}  // namespace pome::server
