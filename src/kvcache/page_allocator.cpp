#include "kvcache/page_allocator.h"

#include "base/check.h"

namespace pome::kvcache {

PageAllocator::PageAllocator(int32_t pages_total) {
  CHECK(pages_total >= 2, "a pool needs the sink and at least one page");
  used_.assign(static_cast<size_t>(pages_total), false);
  free_.reserve(used_.size() - 1);
  for (int32_t page = pages_total - 1; page >= 1; --page) {
    free_.push_back(PageId{page});
  }
}

std::optional<PageId> PageAllocator::allocate() {
  if (free_.empty()) {
    return std::nullopt;
  }
  const PageId page = free_.back();
  free_.pop_back();
  used_[static_cast<size_t>(page)] = true;
  return page;
}

void PageAllocator::release(PageId page) {
  CHECK(in_use(page), "released a page that is not in use");
  used_[static_cast<size_t>(page)] = false;
  free_.push_back(page);
}

bool PageAllocator::in_use(PageId page) const {
  const auto index = static_cast<int32_t>(page);
  return index >= 1 && index <= pages_usable() && used_[static_cast<size_t>(index)];
}

void PageAllocator::check_integrity() const {
  CHECK(!used_[0], "the sink page was handed out");
  std::vector<bool> seen(used_.size(), false);
  for (const PageId page : free_) {
    const auto index = static_cast<size_t>(page);
    CHECK(index >= 1 && index < used_.size(), "a page outside the pool is in the free list");
    CHECK(!seen[index], "a page is in the free list twice");
    CHECK(!used_[index], "a page is free and in use");
    seen[index] = true;
  }
  int32_t marked = 0;
  for (const bool used : used_) {
    marked += used ? 1 : 0;
  }
  CHECK(marked == pages_used(), "a page leaked");
}

}  // namespace pome::kvcache
