#include <fmt/format.h>

#include <optional>
#include <set>
#include <vector>

#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/tagged_arguments.h"

namespace pome::text {
namespace {

constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";

// After "<function=" or "<parameter=": up to and with ">", on one line.
Task<std::optional<std::string>> read_tag_name(Reader& in) {
  constexpr size_t kNameMax = 256;
  const size_t start = in.position();
  while (true) {
    const int next = co_await in.peek();
    if (next == '>' && in.position() > start) {
      const std::string name(in.since(start));
      in.take();
      co_return name;
    }
    if (next == Reader::kEnd || next == '>' || next == '<' || next == '\n' ||
        in.position() - start >= kNameMax) {
      in.rewind(start);
      co_return std::nullopt;
    }
    in.take();
  }
}

ValueEnd value_end(const DeclaredTools& tools, const std::string& function,
                   const std::set<std::string>& given) {
  ValueEnd end{
      .close = std::string(kParameterEnd),
      .followers = {std::string(kParameter), std::string(kFunctionEnd), std::string(kCallEnd)},
      .next_units = {"</function>\n</tool_call>", "</function></tool_call>"},
      .own_lines = true};
  for (const std::string& name : tools.parameters_of(function)) {
    if (given.count(name) == 0) {
      end.next_units.push_back(fmt::format("{}{}>", kParameter, name));
    }
  }
  return end;
}

// The parameter whose "<parameter=" has been read. False: the output ended in it. Nothing: it is
// none, or was given before, and the reader has not moved.
Task<std::optional<bool>> read_parameter(Reader& in, CallSink& out, const std::string& function,
                                         std::set<std::string>& given) {
  const size_t start = in.position();
  const std::optional<std::string> name = co_await read_tag_name(in);
  if (!name || !given.insert(*name).second) {
    in.rewind(start);
    co_return std::nullopt;
  }
  out.arguments().key(*name);
  TypedValue value(out.arguments(), out.tools().types_of(function, *name));
  const ValueEnd end = value_end(out.tools(), function, given);
  const bool read = co_await read_text_value(in, value, end);
  co_return read;
}

enum class FunctionEnd { by_tag, by_next, by_output };

// Parameters up to and with "</function>". A call's end or beginning also ends it, and is not
// passed.
Task<FunctionEnd> read_parameters(Reader& in, CallSink& out, std::string function) {
  std::set<std::string> given;
  out.arguments().begin_object();
  while (true) {
    const size_t space = in.position();
    co_await in.skip_space();
    const size_t start = in.position();
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return FunctionEnd::by_output;
    }
    const bool ended = co_await in.accept(kFunctionEnd);
    if (ended) {
      co_return FunctionEnd::by_tag;
    }
    bool is_next = co_await in.accept(kCallEnd);
    if (!is_next) {
      is_next = co_await in.accept(kCall);
    }
    if (!is_next) {
      is_next = co_await in.accept(kFunction);
    }
    if (is_next) {
      in.rewind(start);
      co_return FunctionEnd::by_next;
    }
    std::optional<bool> read;
    const bool is_parameter = co_await in.accept(kParameter);
    if (is_parameter) {
      read = co_await read_parameter(in, out, function, given);
    }
    if (!read) {
      in.rewind(start);
      in.take();
      out.content(in.since(space));
    } else if (!*read) {
      co_return FunctionEnd::by_output;
    }
  }
}

}  // namespace

Task<void> read_qwen3_coder(Reader& in, CallSink& out) {
  Marks marks{.begins = {kCall, kFunction}};
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    const size_t start = in.position();
    const bool tagged = mark == 0;
    bool is_function = true;
    if (tagged) {
      co_await in.skip_space();
      is_function = co_await in.accept(kFunction);
    }
    std::optional<std::string> name;
    if (is_function) {
      name = co_await read_tag_name(in);
    }
    if (!name || (!tagged && !out.tools().has(*name))) {
      give_back(in, out, marks.begins[static_cast<size_t>(mark)], start);
      continue;
    }
    out.begin_call(*name);
    const FunctionEnd end = co_await read_parameters(in, out, *name);
    out.end_call(end != FunctionEnd::by_output);
    co_await pass_end(in, marks, kCallEnd);
  }
}

}  // namespace pome::text
