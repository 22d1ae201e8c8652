#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kvcache/cache_spec.h"
#include "kvcache/page_allocator.h"

namespace pome::kvcache {

// The page tables of all admitted sequences, one table per cache group. Admission promises the
// pages for a sequence's largest length; pages are handed out as it grows, so memory is touched
// only when it is needed and growth never fails. One thread.
class PageStore {
 public:
  // group_pages has one entry for each group of the spec, sink included.
  PageStore(const CacheSpec& spec, const std::vector<int32_t>& group_pages);

  int32_t page_tokens() const { return page_tokens_; }
  // The longest sequence that fits when it is alone.
  int64_t tokens_max() const;
  // Positions that have a page now, in the group that has the most of them.
  int64_t tokens_used() const;
  int32_t pages_for(int64_t tokens) const;

  // Promises pages for a sequence of up to `tokens_max` positions; false when they are not there
  // now. A sequence is admitted once.
  bool admit(SequenceId sequence, int64_t tokens_max);
  // Hands out pages until the first `tokens` positions have one. Within what admit() promised.
  void grow(SequenceId sequence, int64_t tokens);
  // The sequence's pages and the rest of its promise come back.
  void release(SequenceId sequence);

  bool holds(SequenceId sequence) const { return tables_.contains(sequence); }
  std::span<const PageId> pages(SequenceId sequence, size_t group) const;
  size_t group_count() const { return groups_.size(); }

  // Ends the process when a page has no owner or two, or when more was promised than there is.
  void check_integrity() const;

 private:
  struct Table {
    int32_t pages_promised = 0;  // in every group, those handed out included
    std::vector<std::vector<PageId>> groups;
  };
  struct Group {
    PageAllocator allocator;
    int32_t pages_owed = 0;  // promised to sequences and not yet handed out
  };
  const Table& table(SequenceId sequence) const;

  int32_t page_tokens_;
  std::vector<Group> groups_;
  std::map<SequenceId, Table> tables_;
};

}  // namespace pome::kvcache
