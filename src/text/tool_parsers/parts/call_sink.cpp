#include "text/tool_parsers/parts/call_sink.h"

#include <utility>

#include "base/check.h"
#include "text/reading/reader.h"
#include "text/reading/text_events.h"

namespace pome::text {

void CallSink::add(ToolEvent::Kind kind, std::string_view text) {
  add_text_event(events_, kind, text);
}

void CallSink::flush_arguments() {
  if (in_call_) {
    add(ToolEvent::Kind::arguments, arguments_.take());
  }
}

void CallSink::content(std::string_view text) {
  flush_arguments();
  while (!text.empty()) {
    size_t space = 0;
    while (space < text.size() && is_space(static_cast<unsigned char>(text[space]))) {
      ++space;
    }
    space_ += text.substr(0, space);
    text.remove_prefix(space);
    if (text.empty()) {
      return;
    }
    size_t end = text.size();
    while (is_space(static_cast<unsigned char>(text[end - 1]))) {
      --end;
    }
    if (!call_in_space_ || has_content_) {
      add(ToolEvent::Kind::content, space_);
    }
    space_.clear();
    call_in_space_ = false;
    has_content_ = true;
    add(ToolEvent::Kind::content, text.substr(0, end));
    text.remove_prefix(end);
  }
}

void CallSink::begin_call(std::string_view name, std::string_view id) {
  CHECK(!in_call_, "a call inside a call");
  in_call_ = true;
  call_in_space_ = true;
  arguments_ = JsonWriter();
  events_.push_back(
      {.kind = ToolEvent::Kind::call_begins, .text = std::string(name), .id = std::string(id)});
}

void CallSink::end_call(bool whole) {
  CHECK(in_call_, "no call to end");
  if (arguments_.empty()) {
    arguments_.begin_object();
  }
  arguments_.complete();
  flush_arguments();
  in_call_ = false;
  events_.push_back({.kind = ToolEvent::Kind::call_ends, .whole = whole});
}

void CallSink::finish() {
  if (in_call_) {
    end_call(false);
  }
  if (!call_in_space_) {
    add(ToolEvent::Kind::content, space_);
  }
  space_.clear();
}

std::vector<ToolEvent> CallSink::take() {
  flush_arguments();
  return std::exchange(events_, {});
}

}  // namespace pome::text
