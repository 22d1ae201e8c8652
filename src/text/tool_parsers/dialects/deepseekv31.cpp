#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/sectioned_calls.h"

namespace pome::text {
namespace {

// The name, and the separator.
Task<CallHead> read_head(Reader& in) {
  co_await in.skip_space();
  std::string name = co_await read_name(in);
  const bool separated = co_await in.accept("<｜tool▁sep｜>");
  co_return separated ? CallHead{.name = std::move(name)} : CallHead();
}

}  // namespace

Task<void> read_deepseekv31(Reader& in, CallSink& out) {
  co_await read_sectioned_calls(in, out,
                                {.section = "<｜tool▁calls▁begin｜>",
                                 .section_end = "<｜tool▁calls▁end｜>",
                                 .call = "<｜tool▁call▁begin｜>",
                                 .call_end = "<｜tool▁call▁end｜>",
                                 .read_head = read_head});
}

}  // namespace pome::text
