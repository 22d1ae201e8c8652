#pragma once

#include <string>

namespace pome::text {

// What a model's output turned out to be, in order. Calls do not overlap, but content may stand
// between a call's fragments.
struct ToolEvent {
  enum class Kind {
    content,      // text: for the reader of the answer
    call_begins,  // text: the function's name; id: the call's, where the dialect has one
    arguments,    // text: the next piece of the arguments; the pieces make one JSON object
    call_ends,
  };
  Kind kind = Kind::content;
  std::string text = {};
  std::string id = {};
  // For call_ends. False: the output ended or broke inside the call. The arguments were closed to
  // valid JSON, without what had not been said in full, and the rest of the text is content.
  bool whole = true;

  bool operator==(const ToolEvent&) const = default;
};

}  // namespace pome::text
