#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/reading/reader.h"
#include "text/reading/task.h"
#include "text/tool_parsers/parts/call_sink.h"
#include "text/tool_parsers/parts/tool_event.h"

namespace pome::text {

enum class ToolDialect {
  hermes,
  qwen3_coder,
  llama3,
  mistral,
  pythonic,
  deepseekv3,
  deepseekv31,
  gpt_oss,
  hunyuan,
  glm45,
  kimi_k2,
  gemma,
};

// By a name of --tool-call-parser; several may mean one dialect ("qwen", "qwen25", "hermes").
std::optional<ToolDialect> find_tool_dialect(std::string_view name);
// Every name.
std::vector<std::string> tool_dialect_names();
// The dialect's own name.
std::string_view name_of(ToolDialect dialect);

// The dialect that a chat template asks the model for; nothing where it shows none, or one that has
// no parser here.
std::optional<ToolDialect> guess_tool_dialect(std::string_view chat_template);

// Whether marks of the dialect are control tokens, which the text must then keep.
bool marks_are_control_tokens(ToolDialect dialect);

// Tool calls in one output, as its text arrives. What comes out does not depend on how the text was
// cut: neighbouring events of the same kind joined, any cut gives the same. Nothing is lost: what
// is no call is content. One thread at a time.
class ToolParser {
 public:
  ToolParser(ToolDialect dialect, DeclaredTools tools);
  ~ToolParser();
  ToolParser(ToolParser&&) = delete;

  std::vector<ToolEvent> feed(std::string_view text);
  // The output ended: what was held back, and the end of a call that is open.
  std::vector<ToolEvent> finish();

 private:
  Reader reader_;
  CallSink sink_;
  Task<void> task_;
};

}  // namespace pome::text
