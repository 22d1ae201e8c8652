// rooms: base text/reasoning
// Each style of reasoning reads any text: cut or whole it gives the same. The first byte chooses
// the style and whether the thinking is open, the second where to cut.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "text/reasoning/reasoning_parser.h"

namespace {

void append(const std::vector<pome::text::ReasoningEvent>& events, std::string& out,
            pome::text::ReasoningEvent::Kind& last) {
  for (const auto& event : events) {
    if (out.empty() || event.kind != last) {
      out += event.kind == pome::text::ReasoningEvent::Kind::content ? '\x01' : '\x02';
    }
    last = event.kind;
    out += event.text;
  }
}

std::string read(const pome::text::ReasoningStyle& style, bool inside, std::string_view first,
                 std::string_view second) {
  pome::text::ReasoningParser parser(style, inside);
  std::string out;
  auto last = pome::text::ReasoningEvent::Kind::content;
  append(parser.feed(first), out, last);
  append(parser.feed(second), out, last);
  append(parser.finish(), out, last);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  constexpr std::array<std::string_view, 6> kNames = {"think",   "qwen3",   "kimi",
                                                      "kimi_k2", "gpt-oss", "gemma4"};
  const auto* style = pome::text::find_reasoning_style(kNames[data[0] % kNames.size()]);
  const bool inside = data[0] >= 128;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t cut = text.empty() ? 0 : data[1] % (text.size() + 1);
  if (read(*style, inside, text.substr(0, cut), text.substr(cut)) !=
      read(*style, inside, text, {})) {
    std::abort();
  }
  return 0;
}
