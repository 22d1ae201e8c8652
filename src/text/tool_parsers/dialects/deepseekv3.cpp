#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/sectioned_calls.h"

namespace pome::text {
namespace {

// "function", the separator, the name, and the fence.
Task<CallHead> read_head(Reader& in) {
  co_await in.skip_space();
  const std::string type = co_await read_name(in);
  const bool separated = co_await in.accept("<｜tool▁sep｜>");
  if (type.empty() || !separated) {
    co_return CallHead();
  }
  std::string name = co_await read_name(in);
  co_await in.skip_space();
  const bool fenced = co_await in.accept("```json");
  co_return fenced ? CallHead{.name = std::move(name)} : CallHead();
}

}  // namespace

Task<void> read_deepseekv3(Reader& in, CallSink& out) {
  co_await read_sectioned_calls(in, out,
                                {.section = "<｜tool▁calls▁begin｜>",
                                 .section_end = "<｜tool▁calls▁end｜>",
                                 .call = "<｜tool▁call▁begin｜>",
                                 .call_end = "<｜tool▁call▁end｜>",
                                 .fence_end = "```",
                                 .read_head = read_head});
}

}  // namespace pome::text
