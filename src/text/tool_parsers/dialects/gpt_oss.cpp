#include <optional>
#include <string>

#include "text/tool_parsers/dialects/dialects.h"
#include "text/tool_parsers/parts/content_scan.h"
#include "text/tool_parsers/parts/json_call.h"

namespace pome::text {
namespace {

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kFunctions = "functions.";

// What stands between a message's beginning and its body is short.
constexpr size_t kHeaderMax = 512;

// The function that a header's "to=functions.name" addresses; it stands with the role or with the
// channel.
std::string function_in(std::string_view header) {
  const size_t to = header.find("to=");
  if (to == std::string_view::npos) {
    return {};
  }
  const std::string_view recipient = header.substr(to + 3);
  const std::string_view name = recipient.substr(0, recipient.find_first_of(" \t<"));
  return name.starts_with(kFunctions) ? std::string(name.substr(kFunctions.size())) : std::string();
}

bool is_analysis(std::string_view header) {
  return header.find("analysis") != header.npos;
}

Task<void> read_message(Reader& in, CallSink& out, Marks& marks, std::string_view open) {
  const size_t start = in.position();
  const std::optional<std::string> header = co_await in.line_until(kMessage, kHeaderMax);
  const std::string function = header ? function_in(*header) : std::string();
  if (!header || (function.empty() && is_analysis(*header))) {
    give_back(in, out, open, start);
    co_return;
  }
  marks.owed = {"<|end|>", "<|return|>", "<|call|>"};
  if (!function.empty()) {
    co_await read_named_call(in, out, function, {});
  }
}

}  // namespace

Task<void> read_gpt_oss(Reader& in, CallSink& out) {
  Marks marks{.begins = {kStart, kChannel}};
  // The prompt has opened the message: the recipient may come first.
  const bool addressed = co_await in.accept(" to=");
  if (addressed) {
    in.rewind(in.position() - 4);
    co_await read_message(in, out, marks, "");
  }
  while (true) {
    const int mark = co_await read_content(in, out, marks);
    if (mark == kNoMark) {
      co_return;
    }
    co_await read_message(in, out, marks, marks.begins[static_cast<size_t>(mark)]);
  }
}

}  // namespace pome::text
