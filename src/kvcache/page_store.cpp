#include "kvcache/page_store.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace pome::kvcache {

PageStore::PageStore(const CacheSpec& spec, const std::vector<int32_t>& group_pages)
    : page_tokens_(spec.page_tokens) {
  CHECK(page_tokens_ >= 1, "a page holds at least one token");
  CHECK(!group_pages.empty(), "a model keeps at least one cache group");
  CHECK(spec.groups.size() == group_pages.size(), "one page count for each cache group");
  for (const int32_t pages : group_pages) {
    groups_.push_back({PageAllocator(pages), 0});
  }
}

int64_t PageStore::tokens_max() const {
  int64_t tokens = std::numeric_limits<int64_t>::max();
  for (const Group& group : groups_) {
    tokens = std::min(tokens, int64_t{group.allocator.pages_usable()} * page_tokens_);
  }
  return tokens;
}

int64_t PageStore::tokens_used() const {
  int32_t pages = 0;
  for (const Group& group : groups_) {
    pages = std::max(pages, group.allocator.pages_used());
  }
  return int64_t{pages} * page_tokens_;
}

int32_t PageStore::pages_for(int64_t tokens) const {
  return static_cast<int32_t>((tokens + page_tokens_ - 1) / page_tokens_);
}

bool PageStore::admit(SequenceId sequence, int64_t tokens) {
  CHECK(!holds(sequence), "a sequence is admitted once");
  CHECK(tokens >= 1, "an empty sequence needs no pages");
  if (tokens > tokens_max()) {
    return false;
  }
  const int32_t pages = pages_for(tokens);
  for (const Group& group : groups_) {
    if (group.allocator.pages_free() - group.pages_owed < pages) {
      return false;
    }
  }
  for (Group& group : groups_) {
    group.pages_owed += pages;
  }
  tables_[sequence] = {pages, std::vector<std::vector<PageId>>(groups_.size())};
  return true;
}

void PageStore::grow(SequenceId sequence, int64_t tokens) {
  CHECK(holds(sequence), "a sequence grows after it was admitted");
  Table& grown = tables_[sequence];
  const int32_t pages = pages_for(tokens);
  CHECK(pages <= grown.pages_promised, "a sequence grew past what it was admitted with");
  for (size_t g = 0; g < groups_.size(); ++g) {
    while (static_cast<int32_t>(grown.groups[g].size()) < pages) {
      const std::optional<PageId> page = groups_[g].allocator.allocate();
      CHECK(page.has_value(), "a promised page was not there");
      grown.groups[g].push_back(*page);
      --groups_[g].pages_owed;
    }
  }
}

void PageStore::release(SequenceId sequence) {
  CHECK(holds(sequence), "released a sequence that holds no pages");
  const Table& released = tables_[sequence];
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<PageId>& pages = released.groups[g];
    // Backwards, so that the next sequence finds them in the same order.
    for (auto page = pages.rbegin(); page != pages.rend(); ++page) {
      groups_[g].allocator.release(*page);
    }
    groups_[g].pages_owed -= released.pages_promised - static_cast<int32_t>(pages.size());
  }
  tables_.erase(sequence);
}

std::span<const PageId> PageStore::pages(SequenceId sequence, size_t group) const {
  return table(sequence).groups[group];
}

const PageStore::Table& PageStore::table(SequenceId sequence) const {
  const auto found = tables_.find(sequence);
  CHECK(found != tables_.end(), "the sequence holds no pages");
  return found->second;
}

void PageStore::check_integrity() const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    group.allocator.check_integrity();
    std::vector<bool> owned(static_cast<size_t>(group.allocator.pages_usable()) + 1, false);
    int32_t pages_owned = 0;
    int32_t pages_owed = 0;
    for (const auto& [sequence, held] : tables_) {
      for (const PageId page : held.groups[g]) {
        CHECK(group.allocator.in_use(page), "a table names a page that is not in use");
        CHECK(!owned[static_cast<size_t>(page)], "a page has two owners");
        owned[static_cast<size_t>(page)] = true;
      }
      const auto pages = static_cast<int32_t>(held.groups[g].size());
      CHECK(pages <= held.pages_promised, "a table is longer than its promise");
      pages_owned += pages;
      pages_owed += held.pages_promised - pages;
    }
    CHECK(pages_owned == group.allocator.pages_used(), "a page in use has no owner");
    CHECK(pages_owed == group.pages_owed, "the promises do not add up");
    CHECK(pages_owed <= group.allocator.pages_free(), "more pages are promised than are free");
  }
}

}  // namespace pome::kvcache
