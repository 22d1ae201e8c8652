#include "text/stream/stop_matcher.h"

#include <deque>
#include <utility>

#include "base/check.h"

namespace pome::text {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) : nodes_(1) {
  nodes_[0].next.fill(-1);
  for (size_t index = 0; index < stops.size(); ++index) {
    CHECK(!stops[index].empty(), "an empty stop string matches everywhere");
    lengths_.push_back(stops[index].size());
    int32_t node = 0;
    for (const char c : stops[index]) {
      const auto byte = static_cast<unsigned char>(c);
      if (nodes_[node].next[byte] < 0) {
        const int32_t depth = nodes_[node].depth + 1;
        nodes_[node].next[byte] = static_cast<int32_t>(nodes_.size());
        nodes_.emplace_back();
        nodes_.back().next.fill(-1);
        nodes_.back().depth = depth;
      }
      node = nodes_[node].next[byte];
    }
    if (nodes_[node].match < 0) {
      nodes_[node].match = static_cast<int32_t>(index);
    }
  }
  link_failures();
}

// Breadth first, so a node's failure is complete before the node needs it. Missing edges become the
// failure's edges.
void StopMatcher::link_failures() {
  std::vector<int32_t> failure(nodes_.size(), 0);
  std::deque<int32_t> queue;
  for (int32_t& child : nodes_[0].next) {
    if (child < 0) {
      child = 0;
    } else {
      queue.push_back(child);
    }
  }
  while (!queue.empty()) {
    const int32_t node = queue.front();
    queue.pop_front();
    const int32_t back = failure[node];
    if (nodes_[node].match < 0) {
      nodes_[node].match = nodes_[back].match;
    }
    for (size_t byte = 0; byte < nodes_[node].next.size(); ++byte) {
      const int32_t child = nodes_[node].next[byte];
      if (child < 0) {
        nodes_[node].next[byte] = nodes_[back].next[byte];
      } else {
        failure[child] = nodes_[back].next[byte];
        queue.push_back(child);
      }
    }
  }
}

std::optional<size_t> StopMatcher::push(std::string_view text, std::string& out) {
  if (lengths_.empty()) {
    out += text;
    return std::nullopt;
  }
  held_ += text;
  const size_t fresh = held_.size() - text.size();
  for (size_t at = fresh; at < held_.size(); ++at) {
    state_ = nodes_[state_].next[static_cast<unsigned char>(held_[at])];
    const int32_t match = nodes_[state_].match;
    if (match >= 0) {
      out.append(held_, 0, at + 1 - lengths_[match]);
      held_.clear();
      state_ = 0;
      return static_cast<size_t>(match);
    }
  }
  const size_t keep = static_cast<size_t>(nodes_[state_].depth);
  out.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return std::nullopt;
}

std::string StopMatcher::take_held() {
  state_ = 0;
  return std::exchange(held_, {});
}

}  // namespace pome::text
