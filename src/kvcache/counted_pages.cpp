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

void CountedPages::release(PageId page) {
  CHECK(references(page) >= 1, "released a page that is not in use");
  if (in_flight_.empty()) {
    drop(page);
  } else {
    quarantine_.push_back({newest_built_, page});
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

void CountedPages::step_built(int64_t step) {
  CHECK(step > newest_built_, "steps are built in ascending order");
  CHECK(in_flight_.size() < 2, "at most two steps are in flight");
  newest_built_ = step;
  in_flight_.push_back(step);
}

void CountedPages::step_done(int64_t step, std::vector<PageId>& idle) {
  CHECK(!in_flight_.empty() && in_flight_.front() == step, "steps are done in the order built");
  in_flight_.erase(in_flight_.begin());
  size_t count = 0;
  while (count < quarantine_.size() && quarantine_[count].step <= step) {
    const PageId page = quarantine_[count++].page;
    drop(page);
    if (evictable(page)) {
      idle.push_back(page);
    }
  }
  quarantine_.erase(quarantine_.begin(), quarantine_.begin() + static_cast<std::ptrdiff_t>(count));
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
  int64_t newest = 0;
  for (const Waiting& waiting : quarantine_) {
    CHECK(waiting.step >= newest && waiting.step <= newest_built_, "the quarantine is in order");
    CHECK(!in_flight_.empty() && waiting.step >= in_flight_.front(),
          "a reference outlived its step");
    newest = waiting.step;
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
