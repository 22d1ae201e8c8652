#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/json_call.h"

namespace pome::text {
namespace {

// name[ARGS]{…}, with [CALL_ID]id before [ARGS], or with neither.
Task<CallFound> read_named(Reader& in, CallSink& out) {
  const std::string name = co_await read_name(in);
  std::string id;
  const bool has_id = co_await in.accept("[CALL_ID]");
  if (has_id) {
    id = co_await read_name(in);
  }
  co_await in.accept("[ARGS]");
  co_await in.skip_space();
  const int next = co_await in.peek();
  if (name.empty() || next != '{') {
    co_return CallFound::none;
  }
  const bool whole = co_await read_named_call(in, out, name, id);
  co_return whole ? CallFound::whole : CallFound::broken;
}

}  // namespace

Task<void> read_mistral(Reader& in, CallSink& out) {
  constexpr std::string_view tag = "[TOOL_CALLS]";
  Marks marks{.begins = {tag}};
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    const size_t start = in.position();
    co_await in.skip_space();
    const int next = co_await in.peek();
    CallFound found = CallFound::none;
    if (next == '[') {
      found = co_await read_json_calls(in, out);
    } else if (next == '{') {
      found = co_await read_json_call(in, out, CallTrust::marked);
    } else {
      found = co_await read_named(in, out);
    }
    if (found == CallFound::none) {
      give_back(in, out, tag, start);
    }
  }
}

}  // namespace pome::text
