#include "kvcache/counted_pages.h"

namespace pome::kvcache {

CountedPages::CountedPages(int32_t pages_total) {
  CHECK(pages_total >= 2, "a pool needs the sink and at least one page");
  references_.assign(static_cast<size_t>(pages_total), 0);
  cached_.assign(references_.size(), false);
}

std::optional<PageId> CountedPages::allocate() {
  PageId page{};
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else if (fresh_left() > 0) {
    page = PageId{fresh_++};
  } else {
    return std::nullopt;
  }
  references_[index(page)] = 1;
  return page;
}

void CountedPages::retain(PageId page) {
  CHECK(references(page) >= 1, "shared a page that is not in use");
  evictable_ -= evictable(page) ? 1 : 0;
  ++references_[index(page)];
}

void CountedPages::release(PageId page, int64_t steps) {
  CHECK(references(page) >= 1, "released a page that is not in use");
  CHECK(steps <= steps_built_, "a page waits for a step that was not built");
  if (steps <= steps_done_) {
    drop(page);
  } else {
    quarantine_.push_back({steps, page});
  }
}

void CountedPages::cache(PageId page) {
  CHECK(!cached(page), "the tree holds one reference for a page");
  retain(page);
  cached_[index(page)] = true;
}

void CountedPages::uncache(PageId page) {
  CHECK(cached(page), "the tree gave up a page that it does not hold");
  evictable_ -= evictable(page) ? 1 : 0;
  cached_[index(page)] = false;
  drop(page);
}

void CountedPages::step_done(std::vector<PageId>& idle) {
  CHECK(steps_done_ < steps_built_, "a step is done that was not built");
  ++steps_done_;
  size_t kept = 0;
  for (const Waiting& waiting : quarantine_) {
    if (waiting.steps > steps_done_) {
      quarantine_[kept++] = waiting;
      continue;
    }
    drop(waiting.page);
    if (evictable(waiting.page)) {
      idle.push_back(waiting.page);
    }
  }
  quarantine_.resize(kept);
}

void CountedPages::drop(PageId page) {
  int32_t& count = references_[index(page)];
  CHECK(count >= 1, "released a page that is not in use");
  --count;
  if (count == 0) {
    CHECK(!cached(page), "a page of the tree lost all references");
    free_.push_back(page);
  } else if (evictable(page)) {
    ++evictable_;
  }
}

void CountedPages::check_integrity(const std::vector<int32_t>& owners) const {
  CHECK(owners.size() == references_.size(), "one count for each page");
  std::vector<int32_t> counted = owners;
  for (const Waiting& waiting : quarantine_) {
    CHECK(waiting.steps > steps_done_ && waiting.steps <= steps_built_,
          "a reference outlived its step");
    ++counted[index(waiting.page)];
  }
  CHECK(counted == references_, "a page has references that nobody holds, or owners not counted");
  std::vector<bool> free(references_.size(), false);
  for (const PageId page : free_) {
    const size_t at = index(page);
    CHECK(!free[at] && references_[at] == 0 && static_cast<int32_t>(page) < fresh_,
          "a page is free and in use, or free twice");
    free[at] = true;
  }
  int32_t in_use = 0;
  int32_t evictable_now = 0;
  for (int32_t number = 1; number <= pages_usable(); ++number) {
    const auto at = static_cast<size_t>(number);
    CHECK(number < fresh_ || (references_[at] == 0 && !cached_[at]), "a fresh page is in use");
    in_use += references_[at] > 0 ? 1 : 0;
    evictable_now += evictable(PageId{number}) ? 1 : 0;
  }
  CHECK(references_[0] == 0 && !cached_[0], "the sink page was handed out");
  CHECK(in_use + pages_free() == pages_usable(), "a page leaked");
  CHECK(evictable_now == evictable_, "the evictable pages do not add up");
}

}  // namespace pome::kvcache
