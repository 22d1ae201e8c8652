#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/reading/reader.h"
#include "text/reading/task.h"

namespace pome::text {

struct ReasoningEvent {
  enum class Kind { reasoning, content };
  Kind kind = Kind::content;
  std::string text = {};

  bool operator==(const ReasoningEvent&) const = default;
};

// How a model marks what it thinks. All but harmony put it before the answer, between two marks.
struct ReasoningStyle {
  std::string_view name;  // of --reasoning-parser
  std::string_view open;
  std::string_view close;
  // Ends the thinking without its close, and stays: the model called a tool. Anywhere, or only at
  // the beginning of a line where it is plain text that a thought may also mention.
  std::string_view interrupt = {};
  bool interrupt_begins_line = false;
  // The output begins inside unless the prompt has closed the thinking.
  bool begins_inside = false;
  bool harmony = false;  // channels: analysis, commentary, final
};

// nullptr for an unknown name.
const ReasoningStyle* find_reasoning_style(std::string_view name);
// Every name.
std::vector<std::string> reasoning_style_names();
// The style that a chat template shows; nullptr where it shows none.
const ReasoningStyle* guess_reasoning_style(std::string_view chat_template);

// Whether an output begins inside the thinking, by the end of the prompt that the template
// rendered.
bool begins_inside(const ReasoningStyle& style, std::string_view prompt);

// The same where the model is to go on from what it has said already.
bool continues_inside(const ReasoningStyle& style, std::string_view said);

// Where text goes; neighbouring pieces become one event. White space at both ends of a thought, and
// between the last thought and the answer, belongs to the marks.
class ReasoningSink {
 public:
  void reasoning(std::string_view text);
  void content(std::string_view text);
  // A thought has ended: white space before the answer is dropped, another thought is a new line.
  void after_thought();
  std::vector<ReasoningEvent> take();

 private:
  void add(ReasoningEvent::Kind kind, std::string_view text);

  std::vector<ReasoningEvent> events_;
  std::string space_;  // of a thought: shown when it goes on
  bool has_reasoning_ = false;
  bool drops_space_ = false;
};

// What is thought and what is said in one output, as its text arrives; does not depend on how the
// text was cut. An output of which the thinking never closes is all reasoning. One thread at a
// time.
class ReasoningParser {
 public:
  // `style` outlives the parser.
  ReasoningParser(const ReasoningStyle& style, bool begins_inside);
  ReasoningParser(ReasoningParser&&) = delete;

  std::vector<ReasoningEvent> feed(std::string_view text);
  std::vector<ReasoningEvent> finish();

 private:
  Reader reader_;
  ReasoningSink sink_;
  Task<void> task_;
};

}  // namespace pome::text
