#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace pome::kvcache {

// Hands out the pages 1 … pages_total − 1 of one cache group; page 0 is the sink. The page released
// last goes first, and fresh pages go in ascending order. One thread.
class PageAllocator {
 public:
  // pages_total counts the sink; at least 2.
  explicit PageAllocator(int32_t pages_total);

  // Nothing when no page is free.
  std::optional<PageId> allocate();
  // The page must be in use: a double release is a bug and ends the process.
  void release(PageId page);

  int32_t pages_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t pages_used() const { return pages_usable() - pages_free(); }
  int32_t pages_usable() const { return static_cast<int32_t>(used_.size()) - 1; }
  bool in_use(PageId page) const;

  // Ends the process when the free list and the use marks disagree.
  void check_integrity() const;

 private:
  std::vector<PageId> free_;  // a stack; the top is handed out next
  std::vector<bool> used_;    // by page id
};

}  // namespace pome::kvcache
