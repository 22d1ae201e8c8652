#include "scheduler/prefill_shares.h"

#include <algorithm>
#include <numeric>

namespace pome::scheduler {

std::vector<int32_t> prefill_shares(const std::vector<int32_t>& left, int32_t room,
                                    int32_t chunk_tokens_max) {
  std::vector<int32_t> shares(left.size(), 0);
  if (left.empty() || room <= 0) {
    return shares;
  }
  const auto give = [&](size_t prompt, int32_t most) {
    const int32_t share = std::min({left[prompt], chunk_tokens_max, shares[prompt] + most});
    room -= share - shares[prompt];
    shares[prompt] = share;
  };
  give(0, (room + 1) / 2);
  std::vector<size_t> shortest_first(left.size());
  std::iota(shortest_first.begin(), shortest_first.end(), size_t{0});
  std::stable_sort(shortest_first.begin(), shortest_first.end(),
                   [&](size_t a, size_t b) { return left[a] < left[b]; });
  for (const size_t prompt : shortest_first) {
    if (prompt != 0 && room > 0) {
      give(prompt, room);
    }
  }
  give(0, room);
  return shares;
}

}  // namespace pome::scheduler
