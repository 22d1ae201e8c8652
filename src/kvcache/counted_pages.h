#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace pome::kvcache {

// The pages 1 … pages_total − 1 of one cache group and who refers to them; page 0 is the sink. A
// page is free when nobody does. Running sequences and the prefix tree hold references; the tree
// holds at most one for each page, and a page that only the tree holds is *evictable*.
//
// A reference that a sequence gives up while a step is in flight with it lives on until that step
// is done, because the device still reads the page. So what has no reference can be written at
// once. The page released last is handed out first, and fresh pages go in ascending order. One
// thread.
class CountedPages {
 public:
  // pages_total counts the sink; at least 2.
  explicit CountedPages(int32_t pages_total);

  // A page with one reference; nothing when no page is free.
  std::optional<PageId> allocate();
  // One reference more for a page in use.
  void retain(PageId page);
  // A sequence's reference, which the first `steps` steps that were built may use: gone at once
  // when they are done, else with the last of them.
  void release(PageId page, int64_t steps);

  // The tree's reference. No step reads a page through it: who opens a prefix takes references of
  // its own.
  void cache(PageId page);
  void uncache(PageId page);

  // Steps are done in the order in which they are built.
  void step_built() { ++steps_built_; }
  // Appends the pages that became evictable.
  void step_done(std::vector<PageId>& idle);

  int32_t references(PageId page) const { return references_[index(page)]; }
  bool cached(PageId page) const { return cached_[index(page)]; }
  bool evictable(PageId page) const { return cached(page) && references(page) == 1; }

  int32_t pages_usable() const { return static_cast<int32_t>(references_.size()) - 1; }
  int32_t pages_free() const { return static_cast<int32_t>(free_.size()) + fresh_left(); }
  int32_t pages_evictable() const { return evictable_; }
  // Held by sequences, or still read by a step in flight.
  int32_t pages_held() const { return pages_usable() - pages_free() - evictable_; }
  // References that wait for a step in flight.
  int32_t references_waiting() const { return static_cast<int32_t>(quarantine_.size()); }

  // `owners` counts by page the references of tables and of the tree; with those that wait they
  // must be all there are. Ends the process when they are not, or when a counter disagrees.
  void check_integrity(const std::vector<int32_t>& owners) const;

 private:
  struct Waiting {
    int64_t steps = 0;
    PageId page{};
  };
  size_t index(PageId page) const {
    const auto number = static_cast<int32_t>(page);
    CHECK(number >= 1 && number <= pages_usable(), "no such page");
    return static_cast<size_t>(number);
  }
  int32_t fresh_left() const { return pages_usable() + 1 - fresh_; }
  void drop(PageId page);

  std::vector<int32_t> references_;  // by page id
  std::vector<bool> cached_;         // by page id
  std::vector<PageId> free_;         // a stack; the top is handed out next
  int32_t fresh_ = 1;                // pages from here on were never handed out
  int32_t evictable_ = 0;
  std::vector<Waiting> quarantine_;
  int64_t steps_built_ = 0;
  int64_t steps_done_ = 0;
};

}  // namespace pome::kvcache
