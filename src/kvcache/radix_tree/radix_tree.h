#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace pome::kvcache {

// What a prefix consists of: a token id, or a content hash for a part of a media span.
using Element = uint64_t;

enum class NodeId : int32_t {};
inline constexpr NodeId kNoNode{-1};

// A node that may be gone by now: no two nodes ever have the same birth.
struct NodeRef {
  NodeId node = kNoNode;
  uint64_t birth = 0;
};

enum class Eviction {
  lru,  // what was used longest ago first
  lfu,  // what was used least often, then longest ago
};

// How the tree treats what a cache group keeps at a node.
enum class Holding {
  always,    // every node has one from its birth to its end: full attention
  optional,  // a node may have one, and it is evicted on its own: window pages, state snapshots
};

// Prefixes by whole blocks of elements: a node is one block, and its path from the root of a
// namespace is a prefix. Elements are compared, never hashes alone. A node holds at most one page
// (or slot) for each cache group; the tree keeps the order in which they are evicted and does not
// count references: its owner says which nodes and holdings are *idle*, wanted by nobody who runs.
//
// Using a node uses its whole path. Ancestors learn of it when their last child goes, which is
// before they can go themselves. One thread.
class RadixTree {
 public:
  RadixTree(int32_t block_elements, std::vector<Holding> groups, Eviction eviction);
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  // ---- walking
  NodeId find_root(std::string_view cache_namespace) const;  // kNoNode when there is none
  NodeId find_child(NodeId parent, std::span<const Element> block) const;
  // The child whose block begins with the most elements of `begin` (a block at most), and how many;
  // kNoNode and 0 when no child begins like it.
  std::pair<NodeId, int32_t> find_similar(NodeId parent, std::span<const Element> begin) const;
  // The node, or kNoNode when it is gone.
  NodeId find(NodeRef ref) const;
  NodeRef ref(NodeId node) const { return {node, at(node).birth}; }
  int32_t depth(NodeId node) const { return at(node).depth; }  // 0 for a root
  NodeId parent(NodeId node) const { return at(node).parent; }
  bool is_leaf(NodeId node) const { return at(node).children.empty(); }
  std::span<const Element> block(NodeId node) const { return at(node).block; }

  // ---- growing and shrinking
  NodeId make_root(std::string_view cache_namespace);
  // A new leaf, not idle, used now. The parent has no such child yet.
  NodeId add_child(NodeId parent, std::span<const Element> block);
  // Takes a leaf that holds nothing away, and its root with it when that has no other child.
  void remove(NodeId leaf);
  // Every node that has no child and no holding up from `leaf`, roots excluded, goes.
  void remove_empty(NodeId leaf);
  void clear();

  // ---- what nodes hold
  std::optional<PageId> held(NodeId node, size_t group) const;
  void attach(NodeId node, size_t group, PageId page);  // not idle, used now
  PageId detach(NodeId node, size_t group);

  // ---- use and eviction
  void use(NodeId node, bool hit);  // a hit counts for lfu
  void use_holding(NodeId node, size_t group);
  void set_idle(NodeId node, bool idle);
  void set_holding_idle(NodeId node, size_t group, bool idle);
  bool idle(NodeId node) const { return at(node).idle; }
  bool idle(NodeId node, size_t group) const { return at(node).held[group].idle; }
  // The leaf to evict next: idle ones first. kNoNode when the tree is empty.
  NodeId next_leaf() const;
  // The node whose idle holding in an `optional` group is evicted next; kNoNode without one.
  NodeId next_holding(size_t group) const;

  size_t node_count() const { return nodes_made_ - unused_.size(); }  // roots included
  std::vector<NodeId> all_nodes() const;                              // roots excluded
  // Changes whenever a walk could find something else than before.
  uint64_t version() const { return version_; }

  // Ends the process when links, order or marks disagree.
  void check_integrity() const;

 private:
  struct BlockOrder {
    bool operator()(std::span<const Element> a, std::span<const Element> b) const;
  };
  struct Held {
    PageId page{};  // the sink: nothing
    bool idle = false;
    uint64_t used = 0;
  };
  struct alignas(64) Node {  // what a walk reads stands first
    uint64_t birth = 0;      // 0: not in use
    NodeId parent = kNoNode;
    int32_t depth = 0;
    NodeId newest_child = kNoNode;  // tried first: most paths do not branch
    bool idle = false;
    std::vector<Element> block = {};
    std::vector<Held> held = {};
    uint64_t used = 0;
    uint64_t hits = 0;
    std::map<std::span<const Element>, NodeId, BlockOrder> children = {};
  };
  static constexpr size_t kChunkNodes = 256;
  // Hits (0 for lru), last use, node.
  using Rank = std::tuple<uint64_t, uint64_t, NodeId>;

  const Node& at(NodeId node) const {
    const auto index = static_cast<size_t>(node);
    CHECK(index < nodes_made_, "no such node");
    const Node& found = chunks_[index / kChunkNodes][index % kChunkNodes];
    CHECK(found.birth != 0, "no such node");
    return found;
  }
  Node& at(NodeId node) { return const_cast<Node&>(std::as_const(*this).at(node)); }
  NodeId make_node(NodeId parent);
  void free_node(NodeId node);
  Rank rank(NodeId node) const;
  Rank rank(NodeId node, size_t group) const;
  // The set in which a leaf stands.
  std::set<Rank>& leaves(const Node& leaf) { return leaf.idle ? idle_leaves_ : busy_leaves_; }
  bool lives(size_t index) const {
    return chunks_[index / kChunkNodes][index % kChunkNodes].birth != 0;
  }
  bool ranked(NodeId node) const;
  void check_node(NodeId node) const;

  const int32_t block_elements_;
  const std::vector<Holding> groups_;
  const Eviction eviction_;
  std::vector<std::unique_ptr<Node[]>> chunks_;  // nodes do not move
  size_t nodes_made_ = 0;
  std::vector<NodeId> unused_;
  std::map<std::string, NodeId, std::less<>> roots_;
  std::set<Rank> idle_leaves_;
  std::set<Rank> busy_leaves_;
  std::vector<std::set<Rank>> idle_holdings_;  // by group
  uint64_t clock_ = 0;
  uint64_t births_ = 0;
  uint64_t version_ = 0;
};

}  // namespace pome::kvcache
