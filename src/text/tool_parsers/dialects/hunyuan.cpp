#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <string>

#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/json_call.h"
#include "text/tool_parsers/parts/tagged_arguments.h"

namespace pome::text {
namespace {

// The rest of a tag, up to and with ">": some models' tags all carry a suffix (<tool_call:…>).
Task<std::optional<std::string>> read_suffix(Reader& in) {
  constexpr size_t kSuffixMax = 64;
  const size_t start = in.position();
  const bool has_suffix = co_await in.accept(":");
  while (true) {
    const int next = co_await in.peek();
    if (next == '>') {
      std::string suffix(in.since(start));
      in.take();
      co_return suffix;
    }
    const bool stays =
        has_suffix && next != Reader::kEnd && (std::isalnum(next) != 0 || next == '_');
    if (!stays || in.position() - start > kSuffixMax) {
      in.rewind(start);
      co_return std::nullopt;
    }
    in.take();
  }
}

struct Tags {
  ArgumentTags arguments;
  std::string separator;
  std::string calls_end;
};

Tags tags_with(const std::string& suffix) {
  const auto open = [&](std::string_view name) { return fmt::format("<{}{}>", name, suffix); };
  const auto close = [&](std::string_view name) { return fmt::format("</{}{}>", name, suffix); };
  return {.arguments = {.begin = open("tool_call"),
                        .key = open("arg_key"),
                        .key_end = close("arg_key"),
                        .value = open("arg_value"),
                        .value_end = close("arg_value"),
                        .end = close("tool_call")},
          .separator = open("tool_sep"),
          .calls_end = close("tool_calls")};
}

// After "<tool_call>".
Task<CallFound> read_tagged_call(Reader& in, CallSink& out, const Tags& tags) {
  co_await in.skip_space();
  const std::string name = co_await read_name(in);
  co_await in.skip_space();
  const bool separated = co_await in.accept(tags.separator);
  if (name.empty() || !separated) {
    co_return CallFound::none;
  }
  out.begin_call(name);
  const bool whole = co_await read_tagged_arguments(in, out, name, tags.arguments);
  out.end_call(whole);
  co_return whole ? CallFound::whole : CallFound::broken;
}

// After "<tool_calls>": a list of objects, or the first tagged call.
Task<CallFound> read_calls(Reader& in, CallSink& out, const Tags& tags) {
  co_await in.skip_space();
  const int next = co_await in.peek();
  CallFound found = CallFound::none;
  if (next == '[') {
    found = co_await read_json_calls(in, out);
    co_return found;
  }
  const bool opened = co_await in.accept(tags.arguments.begin);
  if (opened) {
    found = co_await read_tagged_call(in, out, tags);
  }
  co_return found;
}

}  // namespace

Task<void> read_hunyuan(Reader& in, CallSink& out) {
  Marks marks{.begins = {"<tool_calls", "<tool_call"}};
  Tags tags;
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    const size_t start = in.position();
    const std::optional<std::string> suffix = co_await read_suffix(in);
    CallFound found = CallFound::none;
    if (suffix) {
      tags = tags_with(*suffix);
      if (mark == 0) {
        found = co_await read_calls(in, out, tags);
      } else {
        found = co_await read_tagged_call(in, out, tags);
      }
    }
    if (found == CallFound::none) {
      give_back(in, out, marks.begins[static_cast<size_t>(mark)], start);
    } else {
      co_await pass_end(in, marks, tags.calls_end);
    }
  }
}

}  // namespace pome::text
