#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/generation/delta.h"

namespace pome::server {

// The parts of an answer one after another, for dialects in which each call is one piece: what a
// model says in the midst of a call comes when the call is whole.
class OrderedParts {
 public:
  // Calls `thinks` and `says` with texts and `calls` with CallPieces.
  template <typename Thinks, typename Says, typename Calls>
  void add(const Delta& delta, Thinks thinks, Says says, Calls calls) {
    std::string_view reasoning = delta.reasoning;
    std::string_view text = delta.text;
    size_t call = 0;
    const auto say = [&](bool thought, std::string_view piece) {
      if (in_call_) {
        held_.emplace_back(thought, piece);
      } else {
        thought ? thinks(piece) : says(piece);
      }
    };
    for (const text::AnswerRun& run : delta.order) {
      if (run.part != text::AnswerPart::call) {
        const bool thought = run.part == text::AnswerPart::reasoning;
        std::string_view& from = thought ? reasoning : text;
        say(thought, from.substr(0, run.size));
        from.remove_prefix(run.size);
        continue;
      }
      for (size_t i = 0; i < run.size; ++i) {
        const CallPiece& piece = delta.calls[call++];
        in_call_ = !is_whole_with(piece);
        calls(piece);
        for (const auto& [thought, held] : in_call_ ? Held() : std::exchange(held_, {})) {
          say(thought, held);
        }
      }
    }
  }

 private:
  using Held = std::vector<std::pair<bool, std::string>>;

  // Arguments are one JSON object: whole when its brackets are closed.
  bool is_whole_with(const CallPiece& piece) {
    if (!piece.id.empty()) {  // the first piece of a call
      depth_ = 0;
      in_string_ = is_escaped_ = ended_ = false;
    }
    for (const char c : piece.arguments) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (in_string_) {
        in_string_ = c != '"';
        is_escaped_ = c == '\\';
      } else if (c == '"') {
        in_string_ = true;
      } else if (c == '{' || c == '[') {
        ++depth_;
      } else if (c == '}' || c == ']') {
        ended_ = --depth_ == 0;
      }
    }
    return ended_;
  }

  bool in_call_ = false;
  int depth_ = 0;
  bool in_string_ = false;
  bool is_escaped_ = false;
  bool ended_ = false;
  Held held_;
};

}  // namespace pome::server
