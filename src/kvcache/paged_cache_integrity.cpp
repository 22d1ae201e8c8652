#include <algorithm>

#include "base/check.h"
#include "kvcache/paged_cache.h"

namespace pome::kvcache {

std::vector<int32_t> PagedCache::owners(size_t group) const {
  std::vector<int32_t> counts(groups_[group].node_of.size(), 0);
  const auto count = [&counts](PageId page) { ++counts.at(static_cast<size_t>(page)); };
  for (const auto& [id, held] : sequences_) {
    for (const PageRun& run : held.tables[group].runs) {
      for (int32_t i = 0; i < run.count; ++i) {
        count(run.page(i));
      }
    }
    if (!held.copied_from.empty()) {
      count(held.copied_from[group]);
    }
    if (group != state_group_) {
      continue;
    }
    if (held.in && held.in != held.out) {
      count(*held.in);
    }
    if (held.out) {
      count(*held.out);
    }
    for (const Snapshot& snapshot : held.snapshots) {
      count(snapshot.slot);
    }
  }
  for (const NodeId node : tree_.all_nodes()) {
    if (const std::optional<PageId> page = tree_.held(node, group)) {
      CHECK(groups_[group].node_of.at(static_cast<size_t>(*page)) == node,
            "a page of the tree does not know its node");
      count(*page);
    }
  }
  return counts;
}

void PagedCache::check_sequence(const Sequence& held) const {
  CHECK(held.committed <= held.grown, "a sequence has computed more than it has pages for");
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const PageTable& table = held.tables[g];
    if (group.kind == GroupKind::state) {
      CHECK(table.runs.empty(), "a state group has no table");
      CHECK(held.out.has_value() == (held.grown > 0), "a sequence has the state at its end");
      continue;
    }
    const int32_t blocks = blocks_for(held.grown) - (held.copy_due ? 1 : 0);
    CHECK(table.first_block == first_block(group, held.committed),
          "a table begins with what is still seen");
    CHECK(table.blocks() == blocks, "a sequence has a page for each position and none beyond");
    const int32_t written = held.committed / page_tokens_;
    for (const PageId page : table.pages(written, std::max(written, blocks))) {
      CHECK(group.pages.references(page) == 1, "a page that is written has one owner");
    }
    CHECK(std::all_of(table.runs.begin(), table.runs.end(),
                      [](const PageRun& run) { return run.count >= 1; }),
          "a run has pages");
  }
  const NodeId published = tree_.find(held.published);
  CHECK(published == kNoNode || tree_.depth(published) == held.blocks_published,
        "a sequence knows how much of it is published");
}

void PagedCache::check_integrity() const {
  tree_.check_integrity();
  int32_t snapshots = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    group.pages.check_integrity(owners(g));
    for (size_t page = 1; page < group.node_of.size(); ++page) {
      const PageId id{static_cast<int32_t>(page)};
      const NodeId node = group.node_of[page];
      CHECK(group.pages.cached(id) == (node != kNoNode), "a cached page is in the tree");
      if (node == kNoNode) {
        continue;
      }
      CHECK(tree_.held(node, g) == id, "a node holds its page");
      const bool idle = group.kind == GroupKind::full ? tree_.idle(node) : tree_.idle(node, g);
      CHECK(idle == group.pages.evictable(id), "the tree knows what nobody wants");
      snapshots += g == state_group_ ? 1 : 0;
    }
  }
  for (const NodeId node : tree_.all_nodes()) {
    bool holds_something = !tree_.is_leaf(node);
    for (size_t g = 0; g < groups_.size(); ++g) {
      holds_something = holds_something || tree_.held(node, g).has_value();
    }
    CHECK(holds_something, "the end of a path holds nothing");
  }
  CHECK(snapshots == counted_.snapshots, "the snapshots do not add up");
  for (const auto& [id, held] : sequences_) {
    check_sequence(held);
  }
}

}  // namespace pome::kvcache
