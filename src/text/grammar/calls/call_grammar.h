#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/grammar_source.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tool_parsers/tool_parser.h"

namespace pome::text {

// Whether a grammar can hold a model to this form of calls. The others write arguments without the
// quotes that would end them, or in channels.
bool can_force_calls(ToolDialect dialect);
// The dialects that can, by name.
std::vector<std::string> forced_dialect_names();

// One function that may be called.
struct CalledFunction {
  std::string name = {};
  json::value parameters = {};  // its schema; null: any object
  std::string field = {};       // what a refusal of the schema names
};

struct CallRules {
  bool required = true;  // false: text is free, and calls in it follow the rules
  bool one_call = false;
  std::string or_answer = {};  // not required: instead of text, this part of a Lark grammar
  JsonSpace space = {};        // in arguments
};

// An output that calls these functions, at least one of them where a call is required, in the form
// that the dialect's model was taught, with arguments that satisfy the function's schema.
Result<GrammarSource> call_source(const Tokenizer& tokenizer, ToolDialect dialect,
                                  const std::vector<CalledFunction>& functions, CallRules rules);

// The schema of one function's arguments alone, to find out whether it is supported.
Result<GrammarSource> arguments_source(const CalledFunction& function);

}  // namespace pome::text
