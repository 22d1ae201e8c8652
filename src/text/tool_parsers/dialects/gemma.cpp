#include <array>

#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/python_call.h"
#include "text/tool_parsers/values/literal.h"

namespace pome::text {
namespace {

struct Envelope {
  std::string_view open;
  std::string_view close;
  std::string_view string_mark;
};
constexpr std::array<Envelope, 2> kEnvelopes = {
    {{"<|tool_call>", "<tool_call|>", "<|\"|>"},
     {"<start_function_call>", "<end_function_call>", "<escape>"}}};
constexpr std::string_view kCode = "```tool_code";
constexpr std::string_view kCodeEnd = "```";

// call:name{key:value, …}
Task<CallFound> read_bare_call(Reader& in, CallSink& out, const Envelope& envelope) {
  co_await in.skip_space();
  const bool named = co_await in.accept("call:");
  const std::string name = co_await read_name(in);
  co_await in.skip_space();
  const int next = co_await in.peek();
  if (!named || name.empty() || next != '{') {
    co_return CallFound::none;
  }
  out.begin_call(name);
  const bool whole = co_await read_literal(in, out.arguments(),
                                           {.bare = true, .string_mark = envelope.string_mark});
  out.end_call(whole);
  co_return whole ? CallFound::whole : CallFound::broken;
}

// One call a line, perhaps printed.
Task<CallFound> read_code(Reader& in, CallSink& out) {
  bool any = false;
  while (true) {
    const size_t start = in.position();
    co_await in.skip_space();
    const bool printed = co_await in.accept("print(");
    const CallFound found = co_await read_python_call(in, out, CallTrust::inferred);
    if (found == CallFound::broken) {
      co_return found;
    }
    if (found == CallFound::none) {
      in.rewind(start);
      co_return any ? CallFound::whole : CallFound::none;
    }
    if (printed) {
      co_await in.accept(")");
    }
    any = true;
  }
}

}  // namespace

Task<void> read_gemma(Reader& in, CallSink& out) {
  Marks marks{.begins = {kEnvelopes[0].open, kEnvelopes[1].open, kCode}};
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    const size_t start = in.position();
    const size_t which = static_cast<size_t>(mark);
    CallFound found = CallFound::none;
    if (which < kEnvelopes.size()) {
      found = co_await read_bare_call(in, out, kEnvelopes[which]);
    } else {
      found = co_await read_code(in, out);
    }
    if (found == CallFound::none) {
      give_back(in, out, marks.begins[which], start);
    } else {
      co_await pass_end(in, marks, which < kEnvelopes.size() ? kEnvelopes[which].close : kCodeEnd);
    }
  }
}

}  // namespace pome::text
