#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tool_parsers/parts/tool_event.h"
#include "text/tool_parsers/values/declared_tools.h"
#include "text/tool_parsers/values/json_writer.h"

namespace pome::text {

// Where a dialect puts what it reads. Neighbouring pieces become one event. White space next to a
// call is shown only between two texts: before the first and after the last it belongs to the call.
class CallSink {
 public:
  explicit CallSink(DeclaredTools tools) : tools_(std::move(tools)) {}

  void content(std::string_view text);
  void begin_call(std::string_view name, std::string_view id = {});
  // Of the call that has begun: one object.
  JsonWriter& arguments() { return arguments_; }
  void end_call(bool whole);
  // The output ended; so does a call that has not.
  void finish();

  bool in_call() const { return in_call_; }
  const DeclaredTools& tools() const { return tools_; }
  std::vector<ToolEvent> take();

 private:
  void add(ToolEvent::Kind kind, std::string_view text);
  void flush_arguments();

  DeclaredTools tools_;
  std::vector<ToolEvent> events_;
  JsonWriter arguments_;
  std::string space_;  // white space that is not yet shown
  bool call_in_space_ = false;
  bool has_content_ = false;
  bool in_call_ = false;
};

}  // namespace pome::text
