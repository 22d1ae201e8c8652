#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace pome::kvcache {

// `count` consecutive pages from `first`.
struct PageRun {
  PageId first{};
  int32_t count = 0;

  PageId page(int32_t index) const { return PageId{static_cast<int32_t>(first) + index}; }
};

// What `from` holds is copied to `to`, whole.
struct PageCopy {
  int32_t group = 0;
  PageId from{};
  PageId to{};
};

// The pages of one sequence in one cache group, in the order of its blocks of page_tokens
// positions. Blocks before `first_block` are gone: no later position of a window group sees them.
struct PageTable {
  int32_t first_block = 0;
  std::vector<PageRun> runs = {};

  int32_t blocks() const {  // the blocks that were ever handed out
    int32_t total = first_block;
    for (const PageRun& run : runs) {
      total += run.count;
    }
    return total;
  }

  // The next block's page.
  void append(PageId page) {
    if (!runs.empty() && runs.back().page(runs.back().count) == page) {
      ++runs.back().count;
    } else {
      runs.push_back({page, 1});
    }
  }

  // The pages of the blocks [first, last), all handed out; the sink where a block is gone.
  std::vector<PageId> pages(int32_t first, int32_t last) const {
    std::vector<PageId> found(static_cast<size_t>(last - first), PageId{0});
    int32_t begin = first_block;
    for (const PageRun& run : runs) {
      for (int32_t b = std::max(begin, first); b < std::min(begin + run.count, last); ++b) {
        found[static_cast<size_t>(b - first)] = run.page(b - begin);
      }
      begin += run.count;
    }
    return found;
  }
};

}  // namespace pome::kvcache
