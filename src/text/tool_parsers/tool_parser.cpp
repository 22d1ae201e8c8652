#include "text/tool_parsers/tool_parser.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "text/tool_parsers/dialects/dialects.h"

namespace pome::text {
namespace {

struct Dialect {
  ToolDialect dialect;
  std::string_view name;
  Task<void> (*read)(Reader&, CallSink&);
  bool control_tokens;
};
constexpr std::array<Dialect, 12> kDialects = {{
    {ToolDialect::hermes, "hermes", read_hermes, false},
    {ToolDialect::qwen3_coder, "qwen3_coder", read_qwen3_coder, false},
    {ToolDialect::llama3, "llama3", read_llama3, true},
    {ToolDialect::mistral, "mistral", read_mistral, true},
    {ToolDialect::pythonic, "pythonic", read_pythonic, true},
    {ToolDialect::deepseekv3, "deepseekv3", read_deepseekv3, true},
    {ToolDialect::deepseekv31, "deepseekv31", read_deepseekv31, true},
    {ToolDialect::gpt_oss, "gpt-oss", read_gpt_oss, true},
    {ToolDialect::hunyuan, "hunyuan", read_hunyuan, true},
    {ToolDialect::glm45, "glm45", read_glm45, true},
    {ToolDialect::kimi_k2, "kimi_k2", read_kimi_k2, true},
    {ToolDialect::gemma, "gemma", read_gemma, true},
}};

struct Alias {
  std::string_view name;
  ToolDialect dialect;
};
constexpr std::array<Alias, 6> kAliases = {{
    {"qwen", ToolDialect::hermes},
    {"qwen25", ToolDialect::hermes},
    {"step3p5", ToolDialect::qwen3_coder},
    {"glm", ToolDialect::glm45},
    {"glm47", ToolDialect::glm45},
    {"gemma4", ToolDialect::gemma},
}};

// A template shows the form of a call, in its instructions or where it renders earlier calls. The
// first row whose texts are all there decides, so that the narrower stands before the wider.
struct Trace {
  ToolDialect dialect;
  std::string_view text;
  std::string_view also = {};
};
constexpr std::array<Trace, 20> kTraces = {{
    {ToolDialect::gpt_oss, "<|channel|>", "to=functions."},
    {ToolDialect::gpt_oss, "<|channel|>", "to=\" + \"functions."},
    {ToolDialect::gpt_oss, "<|channel|>", "functions."},
    {ToolDialect::kimi_k2, "<|tool_call_argument_begin|>"},
    {ToolDialect::deepseekv3, "<｜tool▁sep｜>", "```json"},
    {ToolDialect::deepseekv31, "<｜tool▁sep｜>"},
    {ToolDialect::gemma, "<|tool_call>call:"},
    {ToolDialect::gemma, "<start_function_call>"},
    {ToolDialect::hunyuan, "<tool_sep"},
    {ToolDialect::glm45, "<arg_key>", "<tool_call>"},
    {ToolDialect::qwen3_coder, "<function=", "<parameter="},
    {ToolDialect::mistral, "[TOOL_CALLS]"},
    {ToolDialect::pythonic, "<|python_start|>"},
    {ToolDialect::llama3, "<|python_tag|>"},
    {ToolDialect::llama3, "{\"name\": function name, \"parameters\":"},
    {ToolDialect::hermes, "<tool_call>", "\"name\""},
    {ToolDialect::hermes, "<tool_call>", "\\\"name\\\""},
    {ToolDialect::hermes, "<tool_call>", "'name'"},
    {ToolDialect::hunyuan, "<tool_calls>", "hy_"},
    {ToolDialect::pythonic, "[func_name1(params_name1="},
}};

const Dialect& row_of(ToolDialect dialect) {
  for (const Dialect& row : kDialects) {
    if (row.dialect == dialect) {
      return row;
    }
  }
  CHECK(false, "a dialect without a row");
  return kDialects[0];
}

}  // namespace

std::optional<ToolDialect> find_tool_dialect(std::string_view name) {
  for (const Dialect& row : kDialects) {
    if (row.name == name) {
      return row.dialect;
    }
  }
  for (const Alias& alias : kAliases) {
    if (alias.name == name) {
      return alias.dialect;
    }
  }
  return std::nullopt;
}

std::vector<std::string> tool_dialect_names() {
  std::vector<std::string> names;
  for (const Dialect& row : kDialects) {
    names.emplace_back(row.name);
  }
  for (const Alias& alias : kAliases) {
    names.emplace_back(alias.name);
  }
  return names;
}

std::string_view name_of(ToolDialect dialect) {
  return row_of(dialect).name;
}

std::optional<ToolDialect> guess_tool_dialect(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  for (const Trace& trace : kTraces) {
    if (has(trace.text) && (trace.also.empty() || has(trace.also))) {
      return trace.dialect;
    }
  }
  return std::nullopt;
}

bool marks_are_control_tokens(ToolDialect dialect) {
  return row_of(dialect).control_tokens;
}

ToolParser::ToolParser(ToolDialect dialect, DeclaredTools tools)
    : sink_(std::move(tools)), task_(row_of(dialect).read(reader_, sink_)) {}

ToolParser::~ToolParser() = default;

std::vector<ToolEvent> ToolParser::feed(std::string_view text) {
  reader_.push(text);
  return sink_.take();
}

std::vector<ToolEvent> ToolParser::finish() {
  reader_.end();
  CHECK(task_.done(), "a dialect did not read to the end");
  sink_.finish();
  return sink_.take();
}

}  // namespace pome::text
