#include "text/reasoning/reasoning_parser.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "text/reading/text_events.h"
#include "text/reasoning/styles.h"

namespace pome::text {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kToolCall = "<tool_call>";

constexpr std::array<ReasoningStyle, 13> kStyles = {{
    {.name = "think", .open = kOpen, .close = kClose},
    {.name = "deepseek-r1", .open = kOpen, .close = kClose, .begins_inside = true},
    {.name = "deepseek-v3", .open = kOpen, .close = kClose},
    {.name = "qwen3",
     .open = kOpen,
     .close = kClose,
     .interrupt = kToolCall,
     .interrupt_begins_line = true},
    {.name = "qwen3-thinking",
     .open = kOpen,
     .close = kClose,
     .interrupt = kToolCall,
     .interrupt_begins_line = true,
     .begins_inside = true},
    {.name = "glm45",
     .open = kOpen,
     .close = kClose,
     .interrupt = kToolCall,
     .interrupt_begins_line = true},
    {.name = "kimi", .open = "◁think▷", .close = "◁/think▷"},
    {.name = "kimi_k2",
     .open = kOpen,
     .close = kClose,
     .interrupt = "<|tool_calls_section_begin|>"},
    {.name = "hunyuan", .open = kOpen, .close = kClose},
    {.name = "gpt-oss", .open = "<|channel|>analysis<|message|>", .close = {}, .harmony = true},
    {.name = "gemma4", .open = "<|channel>thought\n", .close = "<channel|>"},
    {.name = "mistral", .open = "[THINK]", .close = "[/THINK]"},
    {.name = "seed-oss", .open = "<seed:think>", .close = "</seed:think>"},
}};

// The first row whose texts are all in the template decides.
struct Trace {
  std::string_view style;
  std::string_view text;
  std::string_view also = {};
};
constexpr std::array<Trace, 12> kTraces = {{
    {"gpt-oss", "<|channel|>", "analysis"},
    {"gemma4", "<|channel>thought"},
    {"kimi", "◁think▷"},
    {"mistral", "[THINK]"},
    {"seed-oss", "<seed:think>"},
    {"kimi_k2", "<think>", "<|tool_calls_section_begin|>"},
    {"glm45", "<think>", "<arg_key>"},
    {"qwen3", "<think>", "enable_thinking"},
    {"deepseek-v3", "<think>", "thinking is defined"},
    {"deepseek-v3", "</think>", "thinking is defined"},
    {"qwen3", "<think>", "<|im_start|>"},
    {"think", "<think>"},
}};

std::string_view without_space(std::string_view text) {
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

const ReasoningStyle* find_reasoning_style(std::string_view name) {
  for (const ReasoningStyle& style : kStyles) {
    if (style.name == name) {
      return &style;
    }
  }
  return nullptr;
}

std::vector<std::string> reasoning_style_names() {
  std::vector<std::string> names;
  for (const ReasoningStyle& style : kStyles) {
    names.emplace_back(style.name);
  }
  return names;
}

const ReasoningStyle* guess_reasoning_style(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  for (const Trace& trace : kTraces) {
    if (has(trace.text) && (trace.also.empty() || has(trace.also))) {
      return find_reasoning_style(trace.style);
    }
  }
  return nullptr;
}

bool begins_inside(const ReasoningStyle& style, std::string_view prompt) {
  const std::string_view end = without_space(prompt);
  if (end.ends_with(without_space(style.open))) {
    return true;
  }
  return style.begins_inside && !end.ends_with(style.close);
}

bool continues_inside(const ReasoningStyle& style, std::string_view said) {
  const size_t opened = said.rfind(style.open);
  const size_t closed = style.close.empty() ? std::string_view::npos : said.rfind(style.close);
  if (opened == std::string_view::npos) {
    return style.begins_inside && said.empty();
  }
  return closed == std::string_view::npos || closed < opened;
}

void ReasoningSink::add(ReasoningEvent::Kind kind, std::string_view text) {
  add_text_event(events_, kind, text);
}

void ReasoningSink::reasoning(std::string_view text) {
  const std::string_view shown = without_space(text);
  if (shown.empty()) {
    space_ += text;
    return;
  }
  size_t begin = 0;
  while (is_space(static_cast<unsigned char>(shown[begin]))) {
    ++begin;
  }
  space_ += shown.substr(0, begin);
  if (has_reasoning_) {
    add(ReasoningEvent::Kind::reasoning, space_);
  }
  add(ReasoningEvent::Kind::reasoning, shown.substr(begin));
  space_ = text.substr(shown.size());
  has_reasoning_ = true;
}

void ReasoningSink::content(std::string_view text) {
  if (drops_space_) {
    size_t begin = 0;
    while (begin < text.size() && is_space(static_cast<unsigned char>(text[begin]))) {
      ++begin;
    }
    text.remove_prefix(begin);
    drops_space_ = text.empty();
  }
  add(ReasoningEvent::Kind::content, text);
}

void ReasoningSink::after_thought() {
  space_ = "\n";
  drops_space_ = true;
}

std::vector<ReasoningEvent> ReasoningSink::take() {
  return std::exchange(events_, {});
}

ReasoningParser::ReasoningParser(const ReasoningStyle& style, bool begins_inside)
    : task_(style.harmony ? read_harmony(reader_, sink_, style, begins_inside)
                          : read_think(reader_, sink_, style, begins_inside)) {}

std::vector<ReasoningEvent> ReasoningParser::feed(std::string_view text) {
  reader_.push(text);
  return sink_.take();
}

std::vector<ReasoningEvent> ReasoningParser::finish() {
  reader_.end();
  CHECK(task_.done(), "the style did not read to the end");
  return sink_.take();
}

}  // namespace pome::text
