#include <algorithm>
#include <cctype>

#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/sectioned_calls.h"

namespace pome::text {
namespace {

// "functions.get_weather:0" names get_weather; the whole is the call's id.
std::string function_in(std::string_view id) {
  if (id.starts_with("functions.")) {
    id.remove_prefix(std::string_view("functions.").size());
  }
  const size_t colon = id.rfind(':');
  const auto is_digit = [](unsigned char byte) { return std::isdigit(byte) != 0; };
  if (colon != std::string_view::npos && colon + 1 < id.size() &&
      std::all_of(id.begin() + static_cast<std::ptrdiff_t>(colon) + 1, id.end(), is_digit)) {
    id = id.substr(0, colon);
  }
  return std::string(id);
}

// The id, and what opens the arguments.
Task<CallHead> read_head(Reader& in) {
  co_await in.skip_space();
  std::string id = co_await read_name(in);
  co_await in.skip_space();
  const bool opened = co_await in.accept("<|tool_call_argument_begin|>");
  if (!opened) {
    co_return CallHead();
  }
  std::string name = function_in(id);
  co_return CallHead{.name = std::move(name), .id = std::move(id)};
}

}  // namespace

Task<void> read_kimi_k2(Reader& in, CallSink& out) {
  co_await read_sectioned_calls(in, out,
                                {.section = "<|tool_calls_section_begin|>",
                                 .section_end = "<|tool_calls_section_end|>",
                                 .call = "<|tool_call_begin|>",
                                 .call_end = "<|tool_call_end|>",
                                 .read_head = read_head});
}

}  // namespace pome::text
