#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer/answer_forms.h"
#include "text/tool_parsers/values/declared_tools.h"

namespace pome::text {

// How one request wants its answers read. Without forms the text is content as it stands.
struct AnswerReading {
  AnswerForms forms = {};             // what is not to be told apart is left out
  bool begins_inside = false;         // the prompt has opened the thinking
  bool reasoning_at_once = false;     // a thought comes in one piece, when it has ended
  bool one_call = false;              // the answer ends with its first call
  bool keeps_control_tokens = false;  // marks are control tokens, which the text must hold
  DeclaredTools tools = {};

  bool reads_anything() const { return forms.calls || forms.reasoning != nullptr; }
};

enum class AnswerPart { reasoning, content, call };

// So much of one part in a row: bytes of text, or entries of `calls`.
struct AnswerRun {
  AnswerPart part = AnswerPart::content;
  size_t size = 0;
};
// Joins neighbours of the same part; a run of nothing is none.
void add_run(std::vector<AnswerRun>& order, AnswerPart part, size_t size);

struct AnswerDelta {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ToolEvent> calls = {};  // no content among them
  std::vector<AnswerRun> order = {};  // how the three followed each other
  bool finished = false;              // `one_call`: the call is there, and the rest is nothing
};

// One output as its text arrives. What comes out does not depend on how it was cut: each part
// joined, any cut gives the same. One thread at a time.
class AnswerParser {
 public:
  explicit AnswerParser(const AnswerReading& reading);

  AnswerDelta feed(std::string_view text);
  // The output ended, with `rest` as its last text.
  AnswerDelta finish(std::string_view rest = {});

 private:
  void add(std::vector<ReasoningEvent> events, AnswerDelta& delta);
  void add_said(std::string_view text, AnswerDelta& delta);
  void add(std::vector<ToolEvent> events, AnswerDelta& delta);
  void release_thought(AnswerDelta& delta);

  std::optional<ReasoningParser> reasoning_;
  std::optional<ToolParser> calls_;
  bool reasoning_at_once_ = false;
  bool one_call_ = false;
  bool finished_ = false;
  std::string thought_;  // held for `reasoning_at_once`
};

}  // namespace pome::text
