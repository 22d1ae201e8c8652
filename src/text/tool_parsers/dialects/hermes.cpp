#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/json_call.h"

namespace pome::text {

Task<void> read_hermes(Reader& in, CallSink& out) {
  constexpr std::string_view open = "<tool_call>";
  constexpr std::string_view close = "</tool_call>";
  Marks marks{.begins = {open}};
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    size_t start = in.position();
    bool first = true;
    while (true) {  // several objects may share one pair of tags
      co_await in.skip_space();
      const CallFound found = co_await read_json_call(in, out, CallTrust::marked);
      if (found == CallFound::none) {
        if (first) {
          give_back(in, out, open, start);
        } else {
          in.rewind(start);
          co_await pass_end(in, marks, close);
        }
        break;
      }
      if (found == CallFound::broken) {
        marks.owed = {close};
        break;
      }
      first = false;
      start = in.position();
    }
  }
}

}  // namespace pome::text
