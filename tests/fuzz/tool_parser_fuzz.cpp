// rooms: base text/tool_parsers
// Each dialect of tool calls reads any text: cut or whole it gives the same, nothing crashes, and
// arguments of valid UTF-8 are JSON objects. The first byte chooses the dialect, the second where
// to cut.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tool_parsers/tool_parser.h"

namespace {

using pome::text::ToolEvent;

const pome::text::DeclaredTools& tools() {
  static const pome::text::DeclaredTools declared(
      pome::parse_json(
          R"([{"type": "function", "function": {"name": "f", "parameters": {"properties":
        {"s": {"type": "string"}, "i": {"type": "integer"}, "a": {"type": "array"}, "x": {}}}}}])")
          ->as_array());
  return declared;
}

void append(const std::vector<ToolEvent>& events, std::string& out, bool check_json) {
  static thread_local std::string arguments;
  for (const ToolEvent& event : events) {
    out += static_cast<char>('0' + static_cast<int>(event.kind));
    if (event.kind == ToolEvent::Kind::content || event.kind == ToolEvent::Kind::arguments) {
      out.pop_back();  // how often such events come depends on the cut
    }
    out += event.text + event.id;
    if (event.kind == ToolEvent::Kind::call_begins) {
      arguments.clear();
    } else if (event.kind == ToolEvent::Kind::arguments) {
      arguments += event.text;
    } else if (event.kind == ToolEvent::Kind::call_ends && check_json) {
      const auto parsed = pome::parse_json(arguments, {.depth_max = 256});
      if (!parsed || !parsed->is_object()) {
        std::abort();
      }
    }
  }
}

std::string read(pome::text::ToolDialect dialect, std::string_view first, std::string_view second,
                 bool check_json) {
  pome::text::ToolParser parser(dialect, tools());
  std::string out;
  append(parser.feed(first), out, check_json);
  append(parser.feed(second), out, check_json);
  append(parser.finish(), out, check_json);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  constexpr int kDialects = static_cast<int>(pome::text::ToolDialect::gemma) + 1;
  const auto dialect = static_cast<pome::text::ToolDialect>(data[0] % kDialects);
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t cut = text.empty() ? 0 : data[1] % (text.size() + 1);
  const bool is_utf8 = pome::parse_json(pome::to_string(pome::json::value(text))).ok();
  if (read(dialect, text.substr(0, cut), text.substr(cut), is_utf8) !=
      read(dialect, text, {}, is_utf8)) {
    std::abort();
  }
  return 0;
}
