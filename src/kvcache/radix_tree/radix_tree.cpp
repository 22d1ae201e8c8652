#include "kvcache/radix_tree/radix_tree.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace pome::kvcache {

RadixTree::RadixTree(int32_t block_elements, std::vector<Holding> groups, Eviction eviction)
    : block_elements_(block_elements), groups_(std::move(groups)), eviction_(eviction) {
  CHECK(block_elements >= 1, "a block has at least one element");
  idle_holdings_.resize(groups_.size());
}

// ---- walking

NodeId RadixTree::find_root(std::string_view cache_namespace) const {
  const auto found = roots_.find(cache_namespace);
  return found == roots_.end() ? kNoNode : found->second;
}

NodeId RadixTree::find_child(NodeId parent, std::span<const Element> block) const {
  const Node& node = at(parent);
  if (node.newest_child != kNoNode) {
    const std::vector<Element>& newest = at(node.newest_child).block;
    if (std::equal(newest.begin(), newest.end(), block.begin(), block.end())) {
      return node.newest_child;
    }
  }
  const auto found = node.children.find(block);
  return found == node.children.end() ? kNoNode : found->second;
}

std::pair<NodeId, int32_t> RadixTree::find_similar(NodeId parent,
                                                   std::span<const Element> begin) const {
  const Node& node = at(parent);
  std::pair<NodeId, int32_t> best{kNoNode, 0};
  const auto consider = [&](const auto& child) {
    const auto [ours, theirs] =
        std::mismatch(begin.begin(), begin.end(), child.first.begin(), child.first.end());
    if (const auto common = static_cast<int32_t>(ours - begin.begin()); common > best.second) {
      best = {child.second, common};
    }
  };
  // In their order the blocks most alike stand on both sides of where this one would.
  const auto after = node.children.lower_bound(begin);
  if (after != node.children.end()) {
    consider(*after);
  }
  if (after != node.children.begin()) {
    consider(*std::prev(after));
  }
  return best;
}

NodeId RadixTree::find(NodeRef ref) const {
  const auto index = static_cast<size_t>(ref.node);
  if (ref.node == kNoNode || index >= nodes_made_ || !lives(index)) {
    return kNoNode;
  }
  return at(ref.node).birth == ref.birth ? ref.node : kNoNode;
}

// ---- growing and shrinking

NodeId RadixTree::make_root(std::string_view cache_namespace) {
  CHECK(find_root(cache_namespace) == kNoNode, "a namespace has one root");
  const NodeId root = make_node(kNoNode);
  roots_.emplace(cache_namespace, root);
  return root;
}

NodeId RadixTree::add_child(NodeId parent, std::span<const Element> block) {
  CHECK(static_cast<int32_t>(block.size()) == block_elements_, "a node is one whole block");
  CHECK(find_child(parent, block) == kNoNode, "a parent has such a child already");
  if (ranked(parent)) {
    leaves(at(parent)).erase(rank(parent));
  }
  const NodeId child = make_node(parent);
  Node& node = at(child);
  node.block.assign(block.begin(), block.end());
  node.used = ++clock_;
  at(parent).children.emplace(std::span<const Element>(node.block), child);
  at(parent).newest_child = child;
  busy_leaves_.insert(rank(child));
  return child;
}

void RadixTree::remove(NodeId leaf) {
  const Node& node = at(leaf);
  CHECK(is_leaf(leaf) && node.parent != kNoNode, "only a leaf can go");
  CHECK(std::none_of(node.held.begin(), node.held.end(),
                     [](const Held& held) { return held.page != PageId{0}; }),
        "a node that goes holds nothing");
  leaves(node).erase(rank(leaf));
  Node& parent = at(node.parent);
  parent.children.erase(std::span<const Element>(node.block));
  if (parent.newest_child == leaf) {
    parent.newest_child = kNoNode;
  }
  const NodeId parent_id = node.parent;
  parent.used = std::max(parent.used, node.used);
  parent.hits += node.hits;
  free_node(leaf);
  if (!parent.children.empty()) {
    return;
  }
  if (parent.parent != kNoNode) {
    leaves(parent).insert(rank(parent_id));
    return;
  }
  std::erase_if(roots_, [&](const auto& root) { return root.second == parent_id; });
  free_node(parent_id);
}

void RadixTree::remove_empty(NodeId leaf) {
  NodeId node = leaf;
  while (node != kNoNode && parent(node) != kNoNode && is_leaf(node) &&
         std::all_of(at(node).held.begin(), at(node).held.end(),
                     [](const Held& held) { return held.page == PageId{0}; })) {
    const NodeRef above = ref(parent(node));
    remove(node);
    node = find(above);
  }
}

void RadixTree::clear() {
  for (size_t index = 0; index < nodes_made_; ++index) {
    if (lives(index)) {
      free_node(NodeId{static_cast<int32_t>(index)});
    }
  }
  roots_.clear();
  idle_leaves_.clear();
  busy_leaves_.clear();
  for (std::set<Rank>& holdings : idle_holdings_) {
    holdings.clear();
  }
}

NodeId RadixTree::make_node(NodeId parent) {
  NodeId id{static_cast<int32_t>(nodes_made_)};
  if (unused_.empty()) {
    if (nodes_made_ % kChunkNodes == 0) {
      chunks_.push_back(std::make_unique<Node[]>(kChunkNodes));
    }
    ++nodes_made_;
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  const auto index = static_cast<size_t>(id);
  Node& node = chunks_[index / kChunkNodes][index % kChunkNodes];
  node.birth = ++births_;
  node.parent = parent;
  node.depth = parent == kNoNode ? 0 : at(parent).depth + 1;
  node.held.assign(groups_.size(), {});
  ++version_;
  return id;
}

void RadixTree::free_node(NodeId id) {
  Node& node = at(id);
  node = {.block = std::move(node.block), .held = std::move(node.held)};  // their memory stays
  unused_.push_back(id);
  ++version_;
}

// ---- what nodes hold

std::optional<PageId> RadixTree::held(NodeId node, size_t group) const {
  const PageId page = at(node).held[group].page;
  return page == PageId{0} ? std::nullopt : std::optional(page);
}

void RadixTree::attach(NodeId node, size_t group, PageId page) {
  Held& held = at(node).held[group];
  CHECK(at(node).parent != kNoNode, "a root holds nothing");
  CHECK(held.page == PageId{0} && page != PageId{0}, "a node holds one page of a group");
  held = {.page = page, .idle = false, .used = ++clock_};
  ++version_;
}

PageId RadixTree::detach(NodeId node, size_t group) {
  Held& held = at(node).held[group];
  CHECK(held.page != PageId{0}, "a node gives up what it holds");
  set_holding_idle(node, group, false);
  ++version_;
  return std::exchange(held.page, PageId{0});
}

// ---- use and eviction

void RadixTree::use(NodeId id, bool hit) {
  Node& node = at(id);
  const bool leaf = ranked(id);
  if (leaf) {
    leaves(node).erase(rank(id));
  }
  node.used = ++clock_;
  node.hits += hit ? 1 : 0;
  if (leaf) {
    leaves(node).insert(rank(id));
  }
}

void RadixTree::use_holding(NodeId node, size_t group) {
  Held& held = at(node).held[group];
  CHECK(held.page != PageId{0}, "what is used is there");
  const bool idle = held.idle;
  set_holding_idle(node, group, false);
  held.used = ++clock_;
  set_holding_idle(node, group, idle);
}

void RadixTree::set_idle(NodeId id, bool idle) {
  Node& node = at(id);
  if (node.idle == idle) {
    return;
  }
  const bool leaf = ranked(id);
  if (leaf) {
    leaves(node).erase(rank(id));
  }
  node.idle = idle;
  if (leaf) {
    leaves(node).insert(rank(id));
  }
}

void RadixTree::set_holding_idle(NodeId node, size_t group, bool idle) {
  Held& held = at(node).held[group];
  if (held.idle == idle) {
    return;
  }
  CHECK(held.page != PageId{0}, "an idle holding is there");
  held.idle = idle;
  if (groups_[group] == Holding::always) {
    return;
  }
  if (idle) {
    idle_holdings_[group].insert(rank(node, group));
  } else {
    idle_holdings_[group].erase(rank(node, group));
  }
}

NodeId RadixTree::next_leaf() const {
  const std::set<Rank>& first = idle_leaves_.empty() ? busy_leaves_ : idle_leaves_;
  return first.empty() ? kNoNode : std::get<NodeId>(*first.begin());
}

NodeId RadixTree::next_holding(size_t group) const {
  const std::set<Rank>& holdings = idle_holdings_[group];
  return holdings.empty() ? kNoNode : std::get<NodeId>(*holdings.begin());
}

std::vector<NodeId> RadixTree::all_nodes() const {
  std::vector<NodeId> all;
  for (size_t index = 0; index < nodes_made_; ++index) {
    const NodeId node{static_cast<int32_t>(index)};
    if (lives(index) && parent(node) != kNoNode) {
      all.push_back(node);
    }
  }
  return all;
}

// ---- private

bool RadixTree::BlockOrder::operator()(std::span<const Element> a,
                                       std::span<const Element> b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

RadixTree::Rank RadixTree::rank(NodeId id) const {
  const Node& node = at(id);
  return {eviction_ == Eviction::lfu ? node.hits : 0, node.used, id};
}

RadixTree::Rank RadixTree::rank(NodeId id, size_t group) const {
  return {0, at(id).held[group].used, id};
}

bool RadixTree::ranked(NodeId node) const {
  return at(node).parent != kNoNode && is_leaf(node);
}

void RadixTree::check_node(NodeId id) const {
  const Node& node = at(id);
  const auto entry = at(node.parent).children.find(std::span<const Element>(node.block));
  CHECK(entry != at(node.parent).children.end() && entry->second == id,
        "a node is its parent's child");
  CHECK(entry->first.data() == node.block.data(), "a child's key is its own block");
  CHECK(static_cast<int32_t>(node.block.size()) == block_elements_, "a node is one whole block");
  CHECK(node.depth == at(node.parent).depth + 1, "a child is one block deeper");
  CHECK(node.used <= clock_ && node.held.size() == groups_.size(), "a node is well formed");
  CHECK(node.newest_child == kNoNode || parent(node.newest_child) == id, "a child's parent");
  const auto& set = node.idle ? idle_leaves_ : busy_leaves_;
  CHECK(set.contains(rank(id)) == node.children.empty(), "the leaves are ranked, and no others");
  for (size_t group = 0; group < groups_.size(); ++group) {
    const Held& held = node.held[group];
    const bool always = groups_[group] == Holding::always;
    CHECK(!always || held.page != PageId{0}, "a node lacks a page");
    CHECK(!held.idle || held.page != PageId{0}, "nothing is idle");
    CHECK(always || idle_holdings_[group].contains(rank(id, group)) == held.idle,
          "the idle holdings are ranked, and no others");
  }
}

void RadixTree::check_integrity() const {
  size_t children = 0;
  size_t leaf_count = 0;
  std::vector<size_t> idle(groups_.size(), 0);
  const std::vector<NodeId> all = all_nodes();
  for (const NodeId id : all) {
    check_node(id);
    children += at(id).children.size();
    leaf_count += is_leaf(id) ? 1 : 0;
    for (size_t group = 0; group < groups_.size(); ++group) {
      idle[group] += groups_[group] == Holding::optional && at(id).held[group].idle ? 1 : 0;
    }
  }
  for (const auto& [name, root] : roots_) {
    CHECK(at(root).parent == kNoNode, "a root has no parent");
    children += at(root).children.size();
  }
  CHECK(children == all.size(), "a child is no node");
  CHECK(all.size() + roots_.size() == node_count(), "a node is lost");
  CHECK(leaf_count == idle_leaves_.size() + busy_leaves_.size(), "a leaf that is gone is ranked");
  for (size_t group = 0; group < groups_.size(); ++group) {
    CHECK(idle[group] == idle_holdings_[group].size(), "a holding that is gone is ranked");
  }
}

}  // namespace pome::kvcache
