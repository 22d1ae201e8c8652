#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/python_call.h"

namespace pome::text {
namespace {

constexpr std::string_view kStart = "<|python_start|>";
constexpr std::string_view kEnd = "<|python_end|>";

}  // namespace

Task<void> read_pythonic(Reader& in, CallSink& out) {
  Marks marks{.begins = {kStart, "["}};
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    const size_t start = in.position();
    const bool marked = mark == 0;
    bool opened = true;
    if (marked) {
      co_await in.skip_space();
      opened = co_await in.accept("[");
    }
    CallFound found = CallFound::none;
    if (opened) {
      found = co_await read_call_list(in, out, marked ? CallTrust::marked : CallTrust::inferred,
                                      read_python_call);
    }
    if (found == CallFound::none) {
      give_back(in, out, marks.begins[static_cast<size_t>(mark)], start);
    } else if (marked) {
      co_await pass_end(in, marks, kEnd);
    }
  }
}

}  // namespace pome::text
