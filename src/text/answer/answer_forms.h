#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/reasoning/reasoning_parser.h"
#include "text/tool_parsers/tool_parser.h"

namespace pome::text {

// How a model writes its answers.
struct AnswerForms {
  std::optional<ToolDialect> calls = {};      // none: it calls no tools
  const ReasoningStyle* reasoning = nullptr;  // nullptr: it does not think aloud

  // Empty where there is none.
  std::string calls_name() const;
  std::string reasoning_name() const;
};

// By the values of --tool-call-parser and --reasoning-parser: a name, "none", or "auto", which
// looks at the chat template (empty: none). Errors name the flag.
Result<AnswerForms> choose_answer_forms(std::string_view tool_call_parser,
                                        std::string_view reasoning_parser,
                                        std::string_view chat_template);

// The values that each flag takes.
std::vector<std::string> tool_call_parser_choices();
std::vector<std::string> reasoning_parser_choices();

// The marks of these forms that are control tokens, given all of a tokenizer's: such a model's
// answers must be decoded with them, or the marks are lost.
bool marks_are_among(const AnswerForms& forms, const std::vector<std::string>& special_texts);

}  // namespace pome::text
