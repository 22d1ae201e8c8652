#include "text/answer/answer_parser.h"

#include <utility>

namespace pome::text {

void add_run(std::vector<AnswerRun>& order, AnswerPart part, size_t size) {
  if (size == 0) {
    return;
  }
  if (!order.empty() && order.back().part == part) {
    order.back().size += size;
  } else {
    order.push_back({part, size});
  }
}

AnswerParser::AnswerParser(const AnswerReading& reading)
    : reasoning_at_once_(reading.reasoning_at_once), one_call_(reading.one_call) {
  if (reading.forms.reasoning != nullptr) {
    reasoning_.emplace(*reading.forms.reasoning, reading.begins_inside);
  }
  if (reading.forms.calls) {
    calls_.emplace(*reading.forms.calls, reading.tools);
  }
}

AnswerDelta AnswerParser::feed(std::string_view text) {
  AnswerDelta delta;
  if (finished_) {
    return delta;
  }
  if (reasoning_) {
    add(reasoning_->feed(text), delta);
  } else {
    add_said(text, delta);
  }
  return delta;
}

AnswerDelta AnswerParser::finish(std::string_view rest) {
  AnswerDelta delta = feed(rest);
  if (finished_) {
    return delta;
  }
  if (reasoning_) {
    add(reasoning_->finish(), delta);
  }
  release_thought(delta);
  if (calls_ && !finished_) {
    add(calls_->finish(), delta);
  }
  return delta;
}

void AnswerParser::add(std::vector<ReasoningEvent> events, AnswerDelta& delta) {
  for (const ReasoningEvent& event : events) {
    if (finished_) {
      return;
    }
    if (event.kind == ReasoningEvent::Kind::content) {
      release_thought(delta);
      add_said(event.text, delta);
    } else if (reasoning_at_once_) {
      thought_ += event.text;
    } else {
      delta.reasoning += event.text;
      add_run(delta.order, AnswerPart::reasoning, event.text.size());
    }
  }
}

void AnswerParser::add_said(std::string_view text, AnswerDelta& delta) {
  if (calls_) {
    add(calls_->feed(text), delta);
  } else {
    delta.content += text;
    add_run(delta.order, AnswerPart::content, text.size());
  }
}

void AnswerParser::add(std::vector<ToolEvent> events, AnswerDelta& delta) {
  for (ToolEvent& event : events) {
    if (event.kind == ToolEvent::Kind::content) {
      delta.content += event.text;
      add_run(delta.order, AnswerPart::content, event.text.size());
      continue;
    }
    const bool ends = event.kind == ToolEvent::Kind::call_ends;
    delta.calls.push_back(std::move(event));
    add_run(delta.order, AnswerPart::call, 1);
    if (ends && one_call_) {
      finished_ = true;
      delta.finished = true;
      return;
    }
  }
}

void AnswerParser::release_thought(AnswerDelta& delta) {
  add_run(delta.order, AnswerPart::reasoning, thought_.size());
  delta.reasoning += std::exchange(thought_, {});
}

}  // namespace pome::text
