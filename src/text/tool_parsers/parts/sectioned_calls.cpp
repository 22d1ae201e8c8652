#include "text/tool_parsers/parts/sectioned_calls.h"

#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/json_call.h"

namespace pome::text {

Task<void> read_sectioned_calls(Reader& in, CallSink& out, CallSections form) {
  Marks marks{.begins = {form.section, form.call}};
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    const size_t start = in.position();
    bool is_call = true;
    if (mark == 0) {
      co_await in.skip_space();
      is_call = co_await in.accept(form.call);
    }
    CallHead head;
    if (is_call) {
      head = co_await form.read_head(in);
    }
    if (head.name.empty()) {
      give_back(in, out, marks.begins[static_cast<size_t>(mark)], start);
      continue;
    }
    const bool whole = co_await read_named_call(in, out, head.name, head.id);
    if (!whole) {
      marks.owed = {form.call_end};
      continue;
    }
    if (!form.fence_end.empty()) {
      co_await in.skip_space();
      co_await in.accept(form.fence_end);
    }
    co_await pass_end(in, marks, form.call_end);
    if (marks.owed.empty()) {
      co_await pass_end(in, marks, form.section_end);
    }
  }
}

}  // namespace pome::text
