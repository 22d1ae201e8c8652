#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pome::text {

// What a reader of an output puts out: neighbouring text of one kind is one event, and no text is
// none. Event: has `kind` and `text`.
template <typename Event>
void add_text_event(std::vector<Event>& events, typename Event::Kind kind, std::string_view text) {
  if (text.empty()) {
    return;
  }
  if (!events.empty() && events.back().kind == kind) {
    events.back().text += text;
  } else {
    events.push_back({.kind = kind, .text = std::string(text)});
  }
}

}  // namespace pome::text
