#include "text/grammar/calls/call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/grammar/calls/tagged_text.h"

namespace pome::text {
namespace {

// How a call is written: `section` once, then the calls, each between the texts around its name and
// its arguments.
struct CallSyntax {
  ToolDialect dialect;
  std::string_view section = {};
  bool space_after_section = false;  // some templates write one
  std::string_view list_begins = {};
  std::string_view before_name = {};
  std::string_view after_name = {};
  bool numbered = false;  // ":0" after the name
  std::string_view opens_arguments = {};
  std::string_view after_arguments = {};
  std::string_view between = {};
  std::string_view ends = {};
  // Of a dialect without `section`: what of `before_name` no text would say. Empty: an output that
  // begins as a call does is one.
  std::string_view mark = {};
};

constexpr std::array<CallSyntax, 7> kSyntaxes = {{
    {.dialect = ToolDialect::hermes,
     .before_name = "<tool_call>\n{\"name\": \"",
     .after_name = "\", \"arguments\": ",
     .after_arguments = "}\n</tool_call>",
     .between = "\n",
     .mark = "<tool_call>"},
    {.dialect = ToolDialect::llama3,
     .before_name = "{\"name\": \"",
     .after_name = "\", \"parameters\": ",
     .after_arguments = "}",
     .between = "; "},
    {.dialect = ToolDialect::mistral,
     .section = "[TOOL_CALLS]",
     .space_after_section = true,
     .list_begins = "[",
     .before_name = "{\"name\": \"",
     .after_name = "\", \"arguments\": ",
     .after_arguments = "}",
     .between = ", ",
     .ends = "]"},
    {.dialect = ToolDialect::deepseekv3,
     .section = "<｜tool▁calls▁begin｜>",
     .before_name = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .after_name = "\n```json\n",
     .after_arguments = "\n```<｜tool▁call▁end｜>",
     .between = "\n",
     .ends = "<｜tool▁calls▁end｜>"},
    {.dialect = ToolDialect::deepseekv31,
     .section = "<｜tool▁calls▁begin｜>",
     .before_name = "<｜tool▁call▁begin｜>",
     .after_name = "<｜tool▁sep｜>",
     .after_arguments = "<｜tool▁call▁end｜>",
     .ends = "<｜tool▁calls▁end｜>"},
    {.dialect = ToolDialect::kimi_k2,
     .section = "<|tool_calls_section_begin|>",
     .before_name = "<|tool_call_begin|>functions.",
     .numbered = true,
     .opens_arguments = "<|tool_call_argument_begin|>",
     .after_arguments = "<|tool_call_end|>",
     .ends = "<|tool_calls_section_end|>"},
    {.dialect = ToolDialect::hunyuan,
     .section = "<tool_calls>",
     .list_begins = "[",
     .before_name = "{\"name\": \"",
     .after_name = "\", \"arguments\": ",
     .after_arguments = "}",
     .between = ", ",
     .ends = "]</tool_calls>"},
}};

// Mistral's later models, whose vocabulary shows it.
constexpr CallSyntax kMistralNamed = {.dialect = ToolDialect::mistral,
                                      .before_name = "[TOOL_CALLS]",
                                      .after_name = "[ARGS]",
                                      .mark = "[TOOL_CALLS]"};

const CallSyntax* find_syntax(const Tokenizer& tokenizer, ToolDialect dialect) {
  if (dialect == ToolDialect::mistral && tokenizer.token_id("[ARGS]")) {
    return &kMistralNamed;
  }
  const auto found =
      std::find_if(kSyntaxes.begin(), kSyntaxes.end(),
                   [&](const CallSyntax& syntax) { return syntax.dialect == dialect; });
  return found == kSyntaxes.end() ? nullptr : &*found;
}

Result<json::value> arguments_schema(const CalledFunction& function) {
  json::object schema;
  if (function.parameters.is_object()) {
    schema = function.parameters.get_object();
  } else if (!function.parameters.is_null()) {
    return invalid(fmt::format("'{}': expected an object", function.field), function.field);
  }
  const json::value* type = find(schema, "type");
  if (type != nullptr && *type != "object") {
    return invalid(fmt::format("'{}.type': arguments are an object", function.field),
                   function.field + ".type");
  }
  schema["type"] = "object";
  return json::value(std::move(schema));
}

class CallWriter {
 public:
  CallWriter(const Tokenizer& tokenizer, const CallSyntax& syntax, const JsonSpace& space)
      : tokenizer_(tokenizer), syntax_(syntax), space_(space) {}

  // One call, without what `skipped` bytes at its beginning say.
  Result<std::string> call(const CalledFunction& function, size_t skipped) const {
    Result<json::value> schema = arguments_schema(function);
    if (!schema) {
      return schema.error();
    }
    Result<std::string> arguments = json_schema_in_lark(*schema, function.field, space_);
    if (!arguments) {
      return arguments;
    }
    const std::string head =
        fmt::format("{}{}{}", syntax_.before_name, function.name, syntax_.after_name);
    std::string out = text(std::string_view(head).substr(skipped));
    if (syntax_.numbered) {
      out += " \":\" /[0-9]{1,2}/";
    }
    return out + text(syntax_.opens_arguments) + " " + *arguments + text(syntax_.after_arguments);
  }

  // Any of the functions.
  Result<std::string> calls(const std::vector<CalledFunction>& functions, size_t skipped) const {
    std::string out;
    for (const CalledFunction& function : functions) {
      Result<std::string> one = call(function, skipped);
      if (!one) {
        return one;
      }
      out += (out.empty() ? "(" : " | ") + *one;
    }
    return out + ")";
  }

  // What follows `section`, or the whole where a call stands for itself.
  std::string repeated(CallRules rules) const {
    std::string out = syntax_.space_after_section ? "\" \"?" : "";
    out += text(syntax_.list_begins) + " call";
    if (!rules.one_call) {
      out += fmt::format(" ({} call)*", text(syntax_.between));
    }
    return out + text(syntax_.ends);
  }

  std::string text(std::string_view said) const {
    return said.empty() ? std::string() : " " + lark_text(tokenizer_, said);
  }

 private:
  const Tokenizer& tokenizer_;
  const CallSyntax& syntax_;
  const JsonSpace& space_;
};

// Text that does not begin as a call does, or calls.
std::string free_or_calls(const std::string& calls, const std::string& repeated) {
  return fmt::format("start: {} | TEXT\nTEXT: /([^{{\\s](.|\\n)*)?/\ncall: {}\n", repeated, calls);
}

}  // namespace

bool can_force_calls(ToolDialect dialect) {
  return std::any_of(kSyntaxes.begin(), kSyntaxes.end(),
                     [&](const CallSyntax& syntax) { return syntax.dialect == dialect; });
}

std::vector<std::string> forced_dialect_names() {
  std::vector<std::string> names;
  for (const CallSyntax& syntax : kSyntaxes) {
    names.emplace_back(name_of(syntax.dialect));
  }
  return names;
}

Result<GrammarSource> call_source(const Tokenizer& tokenizer, ToolDialect dialect,
                                  const std::vector<CalledFunction>& functions, CallRules rules) {
  const CallSyntax* syntax = find_syntax(tokenizer, dialect);
  CHECK(syntax != nullptr && !functions.empty(),
        "functions are called in a dialect that can be forced");
  const CallWriter writer(tokenizer, *syntax, rules.space);
  const bool marked = !syntax->section.empty() || !syntax->mark.empty();
  const bool in_text = !rules.required && rules.or_answer.empty() && marked;
  const size_t skipped = in_text && syntax->section.empty() ? syntax->mark.size() : 0;
  Result<std::string> calls = writer.calls(functions, skipped);
  if (!calls) {
    return calls.error();
  }
  if (in_text && syntax->section.empty()) {
    return tagged_text_source(tokenizer, {{std::string(syntax->mark), *calls}}, "tools");
  }
  const std::string repeated = writer.repeated(rules);
  if (in_text) {
    Result<GrammarSource> source =
        tagged_text_source(tokenizer, {{std::string(syntax->section), repeated}}, "tools");
    if (source) {
      source->text += fmt::format("call: {}\n", *calls);
    }
    return source;
  }
  if (!rules.required && rules.or_answer.empty()) {
    return GrammarSource{.text = free_or_calls(*calls, repeated)};
  }
  const std::string answer = rules.required ? std::string() : "\n  | " + rules.or_answer;
  return GrammarSource{.text = fmt::format("start: {} {}{}\ncall: {}\n",
                                           writer.text(syntax->section), repeated, answer, *calls)};
}

Result<GrammarSource> arguments_source(const CalledFunction& function) {
  Result<json::value> schema = arguments_schema(function);
  if (!schema) {
    return schema.error();
  }
  return json_schema_source(*schema, function.field);
}

}  // namespace pome::text
