#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pome::text {

// Looks for stop strings in text that arrives in pieces: the automaton of Aho and Corasick (1975)
// over bytes, so the work per byte does not depend on how many stops there are. The match that ends
// first wins; of those that end together, the longest. One thread at a time.
class StopMatcher {
 public:
  explicit StopMatcher(const std::vector<std::string>& stops);

  // Appends to `out` what can no longer be part of a stop string. After a match, `out` ends where
  // the stop string begins and the matcher is spent.
  std::optional<size_t> push(std::string_view text, std::string& out);
  // What was held back.
  std::string take_held();

 private:
  struct Node {
    std::array<int32_t, 256> next{};
    int32_t depth = 0;
    int32_t match = -1;  // index of the longest stop that ends here
  };

  void link_failures();

  std::vector<Node> nodes_;
  std::vector<size_t> lengths_;
  std::string held_;  // the longest suffix of the text that begins a stop string
  int32_t state_ = 0;
};

}  // namespace pome::text
