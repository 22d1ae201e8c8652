#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "kvcache/cache_spec.h"
#include "kvcache/counted_pages.h"
#include "kvcache/page_run.h"
#include "kvcache/radix_tree/radix_tree.h"

namespace pome::kvcache {

struct PagedCacheOptions {
  bool prefix_cache = true;
  Eviction eviction = Eviction::lru;
  // open() also takes the beginning of a page, which the sequence's first row copies. Worth it
  // where computing a few tokens takes longer than a step of one. Not with recurrent states, which
  // exist at the ends of pages alone.
  bool copy_pages = false;
};

// Where a row of a recurrent model starts from and where the state after it is kept. Equal when the
// row writes in place.
struct StateSlots {
  std::optional<SlotId> in = {};   // empty at position 0
  std::optional<SlotId> out = {};  // empty when the spec has no state group
};

struct CacheStats {
  int64_t tokens_max = 0;     // what the smallest group of pages can hold
  int64_t tokens_used = 0;    // by sequences and steps in flight, in the fullest group
  int64_t tokens_cached = 0;  // only by the prefix tree, in the group that has the most of it
  int64_t bytes_used = 0;     // the same over all groups, states included
  int64_t bytes_cached = 0;   // the same over all groups, states included
  int32_t snapshots = 0;      // recurrent states in the prefix tree
  int32_t nodes = 0;          // of the prefix tree, one for each page of a prefix
  // What was taken from the prefix tree to make room.
  int64_t evictions_total = 0;           // nodes, with all that they held
  int64_t window_evictions_total = 0;    // window pages of nodes that stay
  int64_t snapshot_evictions_total = 0;  // snapshots of nodes that stay
};

// All pages of all cache groups: the tables of running sequences and the prefix tree, which share
// pages by counted references (counted_pages.h), so nothing is used after it was given back. A page
// that only the tree holds makes room for a sequence when no page is free.
//
// A sequence's life: open(), then for each of its rows grow() while the step is planned and
// commit() once it is done; commit() may lag one row behind. close() ends it. One thread.
class PagedCache {
 public:
  // group_pages: one entry for each group of the spec, sink included; for a state group, slots.
  PagedCache(const CacheSpec& spec, const std::vector<int32_t>& group_pages,
             const PagedCacheOptions& options = {});

  int32_t page_tokens() const { return page_tokens_; }
  size_t group_count() const { return groups_.size(); }
  // The longest sequence that fits when it is alone and its rows have at most `row_tokens_max`
  // tokens.
  int64_t tokens_max(int32_t row_tokens_max) const;

  // ---- steps in flight. A step has the rows that grow() prepared since the step before was built.
  // What such a sequence gives up is not handed out again before its newest step is done. Steps are
  // built and done in ascending order; at most two are in flight.
  void step_built(int64_t step);
  void step_done(int64_t step);

  // ---- prefix cache
  // How many of the first tokens (at most `limit`; whole pages, unless pages are copied) open()
  // would take from the cache now. Changes nothing.
  int32_t match(std::string_view cache_namespace, std::span<const Token> tokens,
                int32_t limit) const;
  // By group: of the pages that pages_available() counts, those that such an open() would take, and
  // the one that a copy is made to.
  std::vector<int32_t> pages_opened(std::string_view cache_namespace, std::span<const Token> tokens,
                                    int32_t limit) const;
  // Changes whenever match() could give another answer than before.
  uint64_t match_version() const { return tree_.version(); }
  // Forgets every prefix. Running sequences keep their pages, and what they computed before is not
  // found afterwards either.
  void flush_cache();

  // ---- a sequence's life
  // Starts a table with the pages (window pages, state snapshot) of match(); returns match()'s
  // count. Their use is noted when the sequence first grows, so whoever finds no room may close it.
  int32_t open(SequenceId sequence, std::string_view cache_namespace, std::span<const Token> tokens,
               int32_t limit);
  bool holds(SequenceId sequence) const { return sequences_.contains(sequence); }
  // Hands out pages until every group covers positions [0, tokens) (window groups: those still to
  // be seen), and for a state group prepares the slots of the row that ends at `tokens`. Evicts
  // what only the prefix tree holds. False, and nothing changed, when that is not enough. A row
  // that was prepared is built, with this end, in the next step or after another grow() to the same
  // end.
  bool grow(SequenceId sequence, int32_t tokens);
  // What the row that the last grow() prepared copies before it writes. Given out once, to that
  // row; what is copied from stays until it is committed.
  std::vector<PageCopy> take_copies(SequenceId sequence);
  // The slots of the row that the last grow() prepared, until it is committed.
  StateSlots state_slots(SequenceId sequence) const;
  // The largest row from `first` of at most `count` tokens: with a state group a row ends at the
  // next multiple of checkpoint_tokens, where a snapshot is kept.
  int32_t row_tokens(int32_t first, int32_t count) const;
  // Positions [0, committed) of the sequence are computed; `tokens` are at least these. Window
  // pages that no position from `committed` on sees come back. With `share`, whole pages become
  // findable by match(), with the window pages that the sequence still holds and the snapshots at
  // multiples of checkpoint_tokens.
  void commit(SequenceId sequence, std::span<const Token> tokens, int32_t committed, bool share);
  // Its references come back: the one way out, for finish, abort, failure and retraction alike.
  void close(SequenceId sequence);

  // An empty table for a state group.
  const PageTable& table(SequenceId sequence, size_t group) const;

  // ---- counting, for admission
  // Pages that grow() could hand out in a group now: free ones, and those that only the prefix tree
  // holds. Those that a step in flight may read do not count.
  int32_t pages_available(size_t group) const;
  // The most pages that a sequence takes at one time in a group while it grows from `from` computed
  // positions to `to` in rows of at most `row_tokens_max` (1 while it decodes), with one
  // uncommitted row besides the one that is built, beyond those that it holds at `from`.
  int32_t pages_needed(size_t group, int32_t from, int32_t to, int32_t row_tokens_max) const;

  CacheStats stats() const;

  // Ends the process when a reference has no holder, a page is lost, or a counter or the tree's
  // order is wrong.
  void check_integrity() const;

 private:
  struct Group {
    GroupKind kind = GroupKind::full;
    int32_t window = 0;
    int64_t bytes_per_page = 0;
    CountedPages pages;
    std::vector<NodeId> node_of;  // by page: the tree's node that holds it
  };
  // A recurrent state that waits for its node: it is computed when the row that ends at `position`
  // is committed.
  struct Snapshot {
    int32_t position = 0;
    PageId slot{};
  };
  struct Sequence {
    std::string cache_namespace;
    uint64_t epoch = 0;
    int32_t committed = 0;
    int32_t grown = 0;
    bool started = false;           // it has grown since open()
    int64_t steps = 0;              // how many steps will have been built with its newest row
    std::vector<PageTable> tables;  // by group
    // Where the sequence begins inside a page: by group, that page of the tree, until the first row
    // is committed; and what that row is to copy.
    std::vector<PageId> copied_from = {};
    std::vector<PageCopy> copies = {};
    bool copy_due = false;   // the pages to copy to are not handed out yet
    NodeRef published = {};  // the deepest node known to be the sequence's own prefix
    int32_t blocks_published = 0;
    // Of a state group; `in` is a reference of its own only when it is another slot than `out`.
    std::optional<PageId> in = {};   // of the uncommitted row that was grown last
    std::optional<PageId> out = {};  // the state at `grown`
    std::vector<Snapshot> snapshots = {};
  };
  // The first `blocks` nodes of a path are taken, and the first `copied` tokens of one more node.
  struct Match {
    std::vector<NodeId> path = {};
    int32_t blocks = 0;
    NodeId partly = kNoNode;
    int32_t copied = 0;
  };

  Match find(std::string_view cache_namespace, std::span<const Token> tokens, int32_t limit) const;
  // Of a block, or of what there is of it.
  std::span<const Element> elements(std::span<const Token> tokens, int32_t block) const;
  void find_partly(NodeId deepest, std::span<const Token> tokens, int32_t limit,
                   Match& match) const;
  int32_t tokens_of(const Match& match) const { return match.blocks * page_tokens_ + match.copied; }
  bool usable(const std::vector<int32_t>& window_runs, NodeId node) const;
  // The first block that position `position` or a later one sees.
  int32_t first_block(const Group& group, int32_t position) const;
  // The first block whose holding open() takes when it takes such a match.
  int32_t first_opened(const Group& group, const Match& match) const;
  int32_t blocks_for(int32_t tokens) const;

  Sequence& sequence(SequenceId id);
  const Sequence& sequence(SequenceId id) const;
  // A sequence takes or gives up a reference; the tree learns when it is the only holder.
  void hold(size_t group, PageId page);
  void let_go(const Sequence& held, size_t group, PageId page);
  void note_idle(size_t group, PageId page, bool idle);
  void trim(Sequence& held, size_t group, int32_t first_block);
  void note_use(const Sequence& opened);

  bool writes_in_place(const Sequence& grown) const;
  void grow_state(Sequence& grown, int32_t tokens);
  void grow_table(Sequence& grown, size_t group, int32_t blocks);
  void let_go_of_copied(Sequence& held);
  // Evicts until so many pages are free; they must be available.
  void make_room(size_t group, int32_t pages);
  void drop_node(NodeId leaf);
  void take_from_node(NodeId node, size_t group);
  void give_to_node(NodeId node, size_t group, PageId page);

  void publish(Sequence& shared, std::span<const Token> tokens, int32_t committed);
  int32_t blocks_to_publish(const Sequence& shared, int32_t committed) const;

  std::vector<int32_t> owners(size_t group) const;
  void check_sequence(const Sequence& held) const;

  const int32_t page_tokens_;
  const int32_t checkpoint_tokens_;
  const PagedCacheOptions options_;
  std::vector<Group> groups_;
  std::optional<size_t> full_group_;   // the first: it tells which nodes are idle
  std::optional<size_t> state_group_;  // at most one
  RadixTree tree_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  uint64_t epoch_ = 0;  // flushes so far
  int64_t newest_step_ = 0;
  std::vector<int64_t> in_flight_;  // ascending
  int64_t steps_built_ = 0;
  CacheStats counted_ = {};
  std::vector<PageId> idle_;               // scratch of step_done()
  mutable std::vector<Element> elements_;  // scratch of elements()
};

}  // namespace pome::kvcache
