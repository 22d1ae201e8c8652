#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/tagged_arguments.h"

namespace pome::text {

Task<void> read_glm45(Reader& in, CallSink& out) {
  const ArgumentTags tags{.begin = "<tool_call>",
                          .key = "<arg_key>",
                          .key_end = "</arg_key>",
                          .value = "<arg_value>",
                          .value_end = "</arg_value>",
                          .end = "</tool_call>"};
  Marks marks{.begins = {tags.begin}};
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    const size_t start = in.position();
    co_await in.skip_space();
    const std::string name = co_await read_name(in);
    co_await in.skip_space();
    const size_t arguments = in.position();
    bool is_call = co_await in.accept(tags.key);
    if (!is_call) {
      is_call = co_await in.accept(tags.end);
    }
    if (name.empty() || !is_call) {
      give_back(in, out, tags.begin, start);
      continue;
    }
    in.rewind(arguments);
    out.begin_call(name);
    const bool whole = co_await read_tagged_arguments(in, out, name, tags);
    out.end_call(whole);
  }
}

}  // namespace pome::text
