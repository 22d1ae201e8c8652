#include "kvcache/paged_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace pome::kvcache {
namespace {

constexpr int32_t kRowsUncommitted = 2;  // of one sequence: as many as steps in flight

std::vector<Holding> holdings_of(const CacheSpec& spec) {
  std::vector<Holding> holdings;
  for (const CacheGroup& group : spec.groups) {
    holdings.push_back(group.kind == GroupKind::full ? Holding::always : Holding::optional);
  }
  return holdings;
}

std::optional<SlotId> slot_of(std::optional<PageId> page) {
  return page ? std::optional(SlotId{static_cast<int32_t>(*page)}) : std::nullopt;
}

}  // namespace

PagedCache::PagedCache(const CacheSpec& spec, const std::vector<int32_t>& group_pages,
                       const PagedCacheOptions& options)
    : page_tokens_(spec.page_tokens),
      checkpoint_tokens_(spec.checkpoint_tokens),
      options_(options),
      tree_(spec.page_tokens, holdings_of(spec), options.eviction) {
  CHECK(!spec.groups.empty(), "a model keeps at least one cache group");
  CHECK(spec.groups.size() == group_pages.size(), "one page count for each cache group");
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    const CacheGroup& group = spec.groups[g];
    CHECK(group.kind != GroupKind::cross, "an encoder's pages do not grow with the tokens");
    CHECK(group.kind != GroupKind::window || group.window >= 1, "a window sees at least one token");
    if (group.kind == GroupKind::full && !full_group_) {
      full_group_ = g;
    }
    if (group.kind == GroupKind::state) {
      CHECK(!state_group_, "a model has at most one state group");
      CHECK(checkpoint_tokens_ >= 1 && checkpoint_tokens_ % page_tokens_ == 0,
            "snapshots lie at the ends of pages");
      state_group_ = g;
    }
    groups_.push_back(
        {group.kind, group.window, group.bytes_per_page, CountedPages(group_pages[g]), {}});
    groups_[g].node_of.assign(static_cast<size_t>(group_pages[g]), kNoNode);
  }
}

int64_t PagedCache::tokens_max(int32_t row_tokens_max) const {
  int64_t tokens = std::numeric_limits<int32_t>::max();
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int32_t usable = groups_[g].pages.pages_usable();
    if (groups_[g].kind == GroupKind::state) {
      // The last row before a checkpoint still fits where the row after it does not.
      tokens = usable >= pages_needed(g, 0, checkpoint_tokens_ + 1, row_tokens_max)
                   ? tokens
                   : std::min<int64_t>(tokens, checkpoint_tokens_);
    } else if (pages_needed(g, 0, std::numeric_limits<int32_t>::max(), row_tokens_max) > usable) {
      tokens = std::min(tokens, int64_t{usable} * page_tokens_);
    }
  }
  return tokens;
}

// ---- steps in flight

void PagedCache::step_built(int64_t step) {
  CHECK(step > newest_step_, "steps are built in ascending order");
  CHECK(in_flight_.size() < 2, "at most two steps are in flight");
  newest_step_ = step;
  in_flight_.push_back(step);
  ++steps_built_;
  for (Group& group : groups_) {
    group.pages.step_built();
  }
}

void PagedCache::step_done(int64_t step) {
  CHECK(!in_flight_.empty() && in_flight_.front() == step, "steps are done in the order built");
  in_flight_.erase(in_flight_.begin());
  for (size_t g = 0; g < groups_.size(); ++g) {
    idle_.clear();
    groups_[g].pages.step_done(idle_);
    for (const PageId page : idle_) {
      note_idle(g, page, true);
    }
  }
}

// ---- prefix cache (what open() would take: paged_cache_match.cpp)

void PagedCache::flush_cache() {
  for (const NodeId node : tree_.all_nodes()) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (tree_.held(node, g)) {
        take_from_node(node, g);
      }
    }
  }
  tree_.clear();
  ++epoch_;
}

// ---- a sequence's life

int32_t PagedCache::open(SequenceId id, std::string_view cache_namespace,
                         std::span<const Token> tokens, int32_t limit) {
  CHECK(!holds(id), "a sequence is opened once");
  const Match match = find(cache_namespace, tokens, limit);
  Sequence& opened = sequences_[id];
  opened.cache_namespace = cache_namespace;
  opened.epoch = epoch_;
  opened.committed = opened.grown = tokens_of(match);
  opened.tables.resize(groups_.size());
  if (opened.committed == 0) {
    return 0;
  }
  opened.copy_due = match.copied > 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const int32_t first = first_opened(group, match);
    for (int32_t b = first; b < match.blocks; ++b) {
      const NodeId node = match.path[static_cast<size_t>(b)];
      const PageId page = *tree_.held(node, g);
      hold(g, page);
      if (group.kind == GroupKind::state) {
        opened.out = page;
      } else {
        opened.tables[g].append(page);
      }
    }
    opened.tables[g].first_block = group.kind == GroupKind::state ? 0 : first;
    if (match.copied > 0) {
      opened.copied_from.push_back(*tree_.held(match.partly, g));
      hold(g, opened.copied_from.back());
    }
  }
  if (match.blocks > 0) {
    opened.published = tree_.ref(match.path[static_cast<size_t>(match.blocks) - 1]);
    opened.blocks_published = match.blocks;
  }
  return opened.committed;
}

bool PagedCache::grow(SequenceId id, int32_t tokens) {
  Sequence& grown = sequence(id);
  CHECK(tokens >= grown.grown, "a sequence does not shrink");
  if (tokens == grown.grown) {
    grown.steps = steps_built_ + 1;
    return true;
  }
  CHECK(row_tokens(grown.grown, tokens - grown.grown) == tokens - grown.grown,
        "a row ends at a checkpoint");
  const int32_t blocks = blocks_for(tokens) - blocks_for(grown.grown) + (grown.copy_due ? 1 : 0);
  const int32_t slots = state_group_ && !writes_in_place(grown) ? 1 : 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (pages_available(g) < (g == state_group_ ? slots : blocks)) {
      return false;
    }
  }
  if (!std::exchange(grown.started, true)) {
    note_use(grown);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (g == state_group_) {
      grow_state(grown, tokens);
      continue;
    }
    grow_table(grown, g, blocks);
  }
  grown.copy_due = false;
  grown.grown = tokens;
  grown.steps = steps_built_ + 1;
  return true;
}

std::vector<PageCopy> PagedCache::take_copies(SequenceId id) {
  return std::exchange(sequence(id).copies, {});
}

StateSlots PagedCache::state_slots(SequenceId id) const {
  const Sequence& held = sequence(id);
  return {.in = slot_of(held.in), .out = slot_of(held.out)};
}

int32_t PagedCache::row_tokens(int32_t first, int32_t count) const {
  if (!state_group_) {
    return count;
  }
  return std::min(count, checkpoint_tokens_ - first % checkpoint_tokens_);
}

void PagedCache::commit(SequenceId id, std::span<const Token> tokens, int32_t committed,
                        bool share) {
  Sequence& shared = sequence(id);
  CHECK(committed >= shared.committed && committed <= shared.grown,
        "what is committed was grown before");
  CHECK(tokens.size() >= static_cast<size_t>(committed), "a token for each position");
  if (share && options_.prefix_cache && shared.epoch == epoch_) {
    publish(shared, tokens, committed);
  }
  std::erase_if(shared.snapshots, [&](const Snapshot& snapshot) {
    const bool settled = snapshot.position <= committed;
    if (settled) {
      let_go(shared, *state_group_, snapshot.slot);
    }
    return settled;
  });
  if (committed > shared.committed) {
    let_go_of_copied(shared);
  }
  shared.committed = committed;
  if (committed == shared.grown && shared.in) {
    if (shared.in != shared.out) {
      let_go(shared, *state_group_, *shared.in);
    }
    shared.in.reset();
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].kind == GroupKind::window) {
      trim(shared, g, first_block(groups_[g], committed));
    }
  }
}

void PagedCache::close(SequenceId id) {
  Sequence& closed = sequence(id);
  for (size_t g = 0; g < groups_.size(); ++g) {
    // Backwards, so that the next sequence finds them in the same order.
    const std::vector<PageRun>& runs = closed.tables[g].runs;
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
      for (int32_t i = run->count - 1; i >= 0; --i) {
        let_go(closed, g, run->page(i));
      }
    }
  }
  let_go_of_copied(closed);
  if (closed.in && closed.in != closed.out) {
    let_go(closed, *state_group_, *closed.in);
  }
  if (closed.out) {
    let_go(closed, *state_group_, *closed.out);
  }
  for (const Snapshot& snapshot : closed.snapshots) {
    let_go(closed, *state_group_, snapshot.slot);
  }
  sequences_.erase(id);
}

const PageTable& PagedCache::table(SequenceId id, size_t group) const {
  return sequence(id).tables.at(group);
}

// ---- counting

int32_t PagedCache::pages_available(size_t group) const {
  const CountedPages& pages = groups_.at(group).pages;
  return pages.pages_free() + pages.pages_evictable();
}

int32_t PagedCache::pages_needed(size_t group_index, int32_t from, int32_t to,
                                 int32_t row_tokens_max) const {
  CHECK(from >= 0 && from <= to && row_tokens_max >= 1, "a sequence grows by rows");
  const Group& group = groups_.at(group_index);
  if (group.kind == GroupKind::state) {
    // A checkpoint keeps its slot, so the row after it needs another; so does the row after a
    // snapshot that was opened.
    const int32_t begin = std::max(from, 1);
    const int64_t next = (int64_t{begin} + checkpoint_tokens_ - 1) / checkpoint_tokens_;
    const bool second = options_.prefix_cache && next * checkpoint_tokens_ < to;
    return (from == 0 && to > 0 ? 1 : 0) + (second ? 1 : 0);
  }
  const int32_t held = blocks_for(from) - first_block(group, from);
  const int32_t all = blocks_for(to) - first_block(group, from);
  if (group.kind == GroupKind::full) {
    return all - held;
  }
  // So many positions in a row touch at most this many blocks.
  const int64_t seen = int64_t{group.window} - 1 + int64_t{kRowsUncommitted} * row_tokens_max;
  const int64_t peak = (seen + page_tokens_ - 2) / page_tokens_ + 1;
  return std::max(0, static_cast<int32_t>(std::min<int64_t>(peak, all)) - held);
}

CacheStats PagedCache::stats() const {
  CacheStats stats = counted_;
  stats.nodes = static_cast<int32_t>(tree_.node_count());
  int64_t window_tokens = std::numeric_limits<int64_t>::max();
  int64_t full_tokens = window_tokens;
  for (const Group& group : groups_) {
    stats.bytes_used += group.pages.pages_held() * group.bytes_per_page;
    stats.bytes_cached += group.pages.pages_evictable() * group.bytes_per_page;
    if (group.kind == GroupKind::state) {
      continue;
    }
    int64_t& most = group.kind == GroupKind::full ? full_tokens : window_tokens;
    most = std::min(most, int64_t{group.pages.pages_usable()} * page_tokens_);
    stats.tokens_used =
        std::max(stats.tokens_used, int64_t{group.pages.pages_held()} * page_tokens_);
    stats.tokens_cached =
        std::max(stats.tokens_cached, int64_t{group.pages.pages_evictable()} * page_tokens_);
  }
  stats.tokens_max = full_group_ ? full_tokens : window_tokens;
  return stats;
}

// ---- private

int32_t PagedCache::first_block(const Group& group, int32_t position) const {
  return group.kind == GroupKind::window ? std::max(0, position - group.window + 1) / page_tokens_
                                         : 0;
}

int32_t PagedCache::blocks_for(int32_t tokens) const {
  return tokens / page_tokens_ + (tokens % page_tokens_ > 0 ? 1 : 0);
}

PagedCache::Sequence& PagedCache::sequence(SequenceId id) {
  const auto found = sequences_.find(id);
  CHECK(found != sequences_.end(), "no such sequence is open");
  return found->second;
}

const PagedCache::Sequence& PagedCache::sequence(SequenceId id) const {
  return const_cast<PagedCache*>(this)->sequence(id);
}

void PagedCache::hold(size_t group, PageId page) {
  CountedPages& pages = groups_[group].pages;
  const bool was_idle = pages.evictable(page);
  pages.retain(page);
  if (was_idle) {
    note_idle(group, page, false);
  }
}

void PagedCache::let_go(const Sequence& held, size_t group, PageId page) {
  CountedPages& pages = groups_[group].pages;
  pages.release(page, std::min(held.steps, steps_built_));
  if (pages.evictable(page)) {
    note_idle(group, page, true);
  }
}

void PagedCache::note_idle(size_t group, PageId page, bool idle) {
  const NodeId node = groups_[group].node_of[static_cast<size_t>(page)];
  if (groups_[group].kind != GroupKind::full) {
    tree_.set_holding_idle(node, group, idle);
  } else if (group == full_group_) {
    tree_.set_idle(node, idle);
  }
}

void PagedCache::trim(Sequence& held, size_t group, int32_t first_block) {
  PageTable& table = held.tables[group];
  auto run = table.runs.begin();
  while (table.first_block < first_block) {
    const int32_t count = std::min(run->count, first_block - table.first_block);
    for (int32_t i = 0; i < count; ++i) {
      let_go(held, group, run->page(i));
    }
    table.first_block += count;
    run->first = run->page(count);
    run->count -= count;
    run += run->count == 0 ? 1 : 0;
  }
  table.runs.erase(table.runs.begin(), run);
}

void PagedCache::note_use(const Sequence& opened) {
  NodeId deepest = tree_.find(opened.published);
  const auto use = [&](size_t group, PageId page) {
    const NodeId node = groups_[group].node_of[static_cast<size_t>(page)];
    if (node != kNoNode && groups_[group].kind != GroupKind::full) {
      tree_.use_holding(node, group);
    }
    return node;
  };
  for (size_t g = 0; g < opened.copied_from.size(); ++g) {
    const NodeId partly = use(g, opened.copied_from[g]);
    deepest = partly != kNoNode ? partly : deepest;
  }
  if (deepest != kNoNode) {
    tree_.use(deepest, true);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const PageTable& table = opened.tables[g];
    if (groups_[g].kind == GroupKind::window) {
      for (const PageId page : table.pages(table.first_block, table.blocks())) {
        use(g, page);
      }
    }
  }
  if (opened.out) {
    use(*state_group_, *opened.out);
  }
}

bool PagedCache::writes_in_place(const Sequence& grown) const {
  return grown.out && groups_[*state_group_].pages.references(*grown.out) == 1;
}

void PagedCache::grow_state(Sequence& grown, int32_t tokens) {
  const size_t group = *state_group_;
  const bool in_place = writes_in_place(grown);
  if (grown.in && grown.in != grown.out) {
    let_go(grown, group, *grown.in);  // the row before reads it in a step that is in flight
  }
  grown.in = grown.out;
  if (!in_place) {
    make_room(group, 1);
    grown.out = groups_[group].pages.allocate().value();
  }
  if (options_.prefix_cache && tokens % checkpoint_tokens_ == 0) {
    hold(group, *grown.out);
    grown.snapshots.push_back({tokens, *grown.out});
  }
}

void PagedCache::grow_table(Sequence& grown, size_t group, int32_t blocks) {
  make_room(group, blocks);
  for (int32_t b = 0; b < blocks; ++b) {
    const PageId page = groups_[group].pages.allocate().value();
    if (b == 0 && grown.copy_due) {
      grown.copies.push_back({static_cast<int32_t>(group), grown.copied_from[group], page});
    }
    grown.tables[group].append(page);
  }
}

void PagedCache::let_go_of_copied(Sequence& held) {
  for (size_t g = 0; g < held.copied_from.size(); ++g) {
    let_go(held, g, held.copied_from[g]);
  }
  held.copied_from.clear();
}

void PagedCache::make_room(size_t group, int32_t pages) {
  while (groups_[group].pages.pages_free() < pages) {
    const bool full = groups_[group].kind == GroupKind::full;
    const NodeId node = full ? tree_.next_leaf() : tree_.next_holding(group);
    CHECK(node != kNoNode, "evictable pages are in the tree");
    if (full) {
      // A leaf in use frees nothing now, but its ancestors may be wanted by nobody.
      drop_node(node);
      ++counted_.evictions_total;
      continue;
    }
    take_from_node(node, group);
    tree_.remove_empty(node);
    ++(group == state_group_ ? counted_.snapshot_evictions_total : counted_.window_evictions_total);
  }
}

void PagedCache::drop_node(NodeId leaf) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (tree_.held(leaf, g)) {
      take_from_node(leaf, g);
    }
  }
  tree_.remove(leaf);
}

void PagedCache::take_from_node(NodeId node, size_t group) {
  const PageId page = tree_.detach(node, group);
  groups_[group].node_of[static_cast<size_t>(page)] = kNoNode;
  groups_[group].pages.uncache(page);
  counted_.snapshots -= group == state_group_ ? 1 : 0;
}

void PagedCache::give_to_node(NodeId node, size_t group, PageId page) {
  tree_.attach(node, group, page);
  groups_[group].node_of[static_cast<size_t>(page)] = node;
  groups_[group].pages.cache(page);
  counted_.snapshots += group == state_group_ ? 1 : 0;
}

// Where no group has a page at each node, a path ends at a node that holds something.
int32_t PagedCache::blocks_to_publish(const Sequence& shared, int32_t committed) const {
  const int32_t whole = committed / page_tokens_;
  if (full_group_) {
    return whole;
  }
  int32_t blocks = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (g != state_group_ && shared.tables[g].first_block < whole) {
      blocks = whole;
    }
  }
  for (const Snapshot& snapshot : shared.snapshots) {
    if (snapshot.position <= committed) {
      blocks = std::max(blocks, snapshot.position / page_tokens_);
    }
  }
  return blocks;
}

void PagedCache::publish(Sequence& shared, std::span<const Token> tokens, int32_t committed) {
  const int32_t blocks = blocks_to_publish(shared, committed);
  if (blocks <= shared.blocks_published) {
    return;
  }
  NodeId node = tree_.find(shared.published);
  if (node == kNoNode) {
    node = tree_.find_root(shared.cache_namespace);
  }
  if (node == kNoNode) {
    node = tree_.make_root(shared.cache_namespace);
  }
  const int32_t first = tree_.depth(node);
  std::vector<std::vector<PageId>> pages;
  for (const PageTable& table : shared.tables) {
    pages.push_back(table.pages(first, blocks));
  }
  for (int32_t b = first; b < blocks; ++b) {
    const std::span<const Element> block = elements(tokens, b);
    const NodeId child = tree_.find_child(node, block);
    node = child != kNoNode ? child : tree_.add_child(node, block);
    for (size_t g = 0; g < groups_.size(); ++g) {
      const PageId page = pages[g][static_cast<size_t>(b - first)];
      if (page != PageId{0} && !tree_.held(node, g)) {
        give_to_node(node, g, page);
      }
    }
    for (const Snapshot& snapshot : shared.snapshots) {
      if (snapshot.position == (b + 1) * page_tokens_ && !tree_.held(node, *state_group_)) {
        give_to_node(node, *state_group_, snapshot.slot);
      }
    }
  }
  tree_.use(node, false);
  shared.published = tree_.ref(node);
  shared.blocks_published = blocks;
}

}  // namespace pome::kvcache
