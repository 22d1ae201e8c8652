#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/json_call.h"

namespace pome::text {
namespace {

// Calls one after another, with ";" or white space between them. Stops behind the last, and says
// what came of the next.
Task<CallFound> read_calls(Reader& in, CallSink& out, CallTrust trust) {
  CallFound found = CallFound::none;
  bool any = false;
  while (true) {
    const size_t start = in.position();
    co_await in.skip_space();
    if (any) {
      co_await in.accept(";");
      co_await in.skip_space();
    }
    found = co_await read_json_call(in, out, trust);
    if (found == CallFound::none) {
      in.rewind(start);
      co_return any ? CallFound::whole : CallFound::none;
    }
    if (found == CallFound::broken) {
      co_return found;
    }
    any = true;
  }
}

}  // namespace

Task<void> read_llama3(Reader& in, CallSink& out) {
  constexpr std::string_view tag = "<|python_tag|>";
  Marks marks{.begins = {tag}};
  co_await read_calls(in, out, CallTrust::inferred);
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    const size_t start = in.position();
    const CallFound found = co_await read_calls(in, out, CallTrust::marked);
    if (found == CallFound::none) {
      give_back(in, out, tag, start);
    }
  }
}

}  // namespace pome::text
