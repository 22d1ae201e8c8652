#pragma once

#include <string>
#include <string_view>

#include "text/reading/reader.h"
#include "text/reading/task.h"
#include "text/tool_parsers/parts/call_sink.h"

namespace pome::text {

// What stands before a call's arguments; no name: it is none.
struct CallHead {
  std::string name = {};
  std::string id = {};
};

// Calls that stand alone or in a section: <section><call>head {arguments}<call end>…<section end>.
// The texts outlive the reading.
struct CallSections {
  std::string_view section;
  std::string_view section_end;
  std::string_view call;
  std::string_view call_end;
  std::string_view fence_end = {};  // may stand between the arguments and the call's end
  // After `call`, up to the arguments.
  Task<CallHead> (*read_head)(Reader& in) = nullptr;
};

// A whole output of such a dialect.
Task<void> read_sectioned_calls(Reader& in, CallSink& out, CallSections form);

}  // namespace pome::text
