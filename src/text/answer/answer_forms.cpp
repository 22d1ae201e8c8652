#include "text/answer/answer_forms.h"

#include <fmt/format.h>

#include <algorithm>

namespace pome::text {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kNone = "none";

std::vector<std::string> with_auto_and_none(const std::vector<std::string>& names) {
  std::vector<std::string> out = {std::string(kAuto), std::string(kNone)};
  out.insert(out.end(), names.begin(), names.end());
  return out;
}

Error unknown(std::string_view flag, std::string_view name, const std::vector<std::string>& known) {
  return invalid(
      fmt::format("--{}: expected one of {}, got '{}'", flag, fmt::join(known, ", "), name),
      std::string(flag));
}

}  // namespace

std::string AnswerForms::calls_name() const {
  return calls ? std::string(name_of(*calls)) : std::string();
}

std::string AnswerForms::reasoning_name() const {
  return reasoning != nullptr ? std::string(reasoning->name) : std::string();
}

std::vector<std::string> tool_call_parser_choices() {
  return with_auto_and_none(tool_dialect_names());
}

std::vector<std::string> reasoning_parser_choices() {
  return with_auto_and_none(reasoning_style_names());
}

Result<AnswerForms> choose_answer_forms(std::string_view tool_call_parser,
                                        std::string_view reasoning_parser,
                                        std::string_view chat_template) {
  AnswerForms forms;
  if (tool_call_parser == kAuto) {
    forms.calls = guess_tool_dialect(chat_template);
  } else if (tool_call_parser != kNone) {
    forms.calls = find_tool_dialect(tool_call_parser);
    if (!forms.calls) {
      return unknown("tool-call-parser", tool_call_parser, tool_call_parser_choices());
    }
  }
  if (reasoning_parser == kAuto) {
    forms.reasoning = guess_reasoning_style(chat_template);
  } else if (reasoning_parser != kNone) {
    forms.reasoning = find_reasoning_style(reasoning_parser);
    if (forms.reasoning == nullptr) {
      return unknown("reasoning-parser", reasoning_parser, reasoning_parser_choices());
    }
  }
  return forms;
}

bool marks_are_among(const AnswerForms& forms, const std::vector<std::string>& special_texts) {
  if (forms.calls && marks_are_control_tokens(*forms.calls)) {
    return true;
  }
  return std::any_of(special_texts.begin(), special_texts.end(), [&](const std::string& special) {
    // Of the other dialects; some conversions of checkpoints make it a control token.
    const bool calls = forms.calls && (special == "<tool_call>" || special == "</tool_call>");
    const bool thinks = forms.reasoning != nullptr &&
                        (forms.reasoning->open.find(special) != std::string_view::npos ||
                         (!forms.reasoning->close.empty() && special == forms.reasoning->close));
    return calls || thinks;
  });
}

}  // namespace pome::text
