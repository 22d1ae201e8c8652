#include <algorithm>

#include "base/check.h"
#include "kvcache/paged_cache.h"

// What of a prompt the prefix tree has.
namespace pome::kvcache {

int32_t PagedCache::match(std::string_view cache_namespace, std::span<const Token> tokens,
                          int32_t limit) const {
  return tokens_of(find(cache_namespace, tokens, limit));
}

std::vector<int32_t> PagedCache::pages_opened(std::string_view cache_namespace,
                                              std::span<const Token> tokens, int32_t limit) const {
  const Match match = find(cache_namespace, tokens, limit);
  std::vector<int32_t> counts(groups_.size(), 0);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    for (int32_t b = first_opened(group, match); b < match.blocks; ++b) {
      const std::optional<PageId> page = tree_.held(match.path[static_cast<size_t>(b)], g);
      counts[g] += group.pages.evictable(*page) ? 1 : 0;
    }
    if (match.copied > 0) {
      counts[g] += group.pages.evictable(*tree_.held(match.partly, g)) ? 2 : 1;
    }
  }
  return counts;
}

PagedCache::Match PagedCache::find(std::string_view cache_namespace, std::span<const Token> tokens,
                                   int32_t limit) const {
  CHECK(limit >= 0, "a limit is a count of tokens");
  Match match;
  if (!options_.prefix_cache) {
    return match;
  }
  const auto blocks =
      static_cast<int32_t>(std::min<size_t>(tokens.size(), static_cast<size_t>(limit))) /
      page_tokens_;
  std::vector<int32_t> window_runs(groups_.size(), 0);  // nodes in a row that have a window page
  NodeId deepest = kNoNode;
  NodeId node = tree_.find_root(cache_namespace);
  while (node != kNoNode) {
    deepest = node;
    if (usable(window_runs, node)) {
      match.blocks = tree_.depth(node);
    }
    if (tree_.depth(node) == blocks) {
      break;
    }
    node = tree_.find_child(node, elements(tokens, tree_.depth(node)));
    if (node == kNoNode) {
      break;
    }
    match.path.push_back(node);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].kind == GroupKind::window) {
        window_runs[g] = tree_.held(node, g) ? window_runs[g] + 1 : 0;
      }
    }
  }
  if (options_.copy_pages && !state_group_ && deepest != kNoNode &&
      tree_.depth(deepest) == match.blocks) {
    find_partly(deepest, tokens, limit, match);
  }
  return match;
}

void PagedCache::find_partly(NodeId deepest, std::span<const Token> tokens, int32_t limit,
                             Match& match) const {
  const auto end = std::min<size_t>(tokens.size(), static_cast<size_t>(limit));
  if (end <= static_cast<size_t>(tokens_of(match))) {
    return;
  }
  const auto [node, common] =
      tree_.find_similar(deepest, elements(tokens.first(end), match.blocks));
  if (node == kNoNode) {
    return;
  }
  match.partly = node;
  match.copied = common;
  for (size_t g = 0; g < groups_.size(); ++g) {
    // Beside the page that is copied from, a sequence that is alone must find one to copy to.
    const int32_t held = match.blocks - first_opened(groups_[g], match);
    if (!tree_.held(node, g) || held + 2 > groups_[g].pages.pages_usable()) {
      match.partly = kNoNode;
      match.copied = 0;
      return;
    }
  }
}

bool PagedCache::usable(const std::vector<int32_t>& window_runs, NodeId node) const {
  const int32_t depth = tree_.depth(node);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if (group.kind == GroupKind::window &&
        window_runs[g] < depth - first_block(group, depth * page_tokens_)) {
      return false;
    }
    if (group.kind == GroupKind::state && depth > 0 && !tree_.held(node, g)) {
      return false;
    }
  }
  return true;
}

std::span<const Element> PagedCache::elements(std::span<const Token> tokens, int32_t block) const {
  const auto begin = static_cast<size_t>(block) * static_cast<size_t>(page_tokens_);
  const std::span<const Token> rest = tokens.subspan(begin);
  const auto cut = rest.first(std::min(rest.size(), static_cast<size_t>(page_tokens_)));
  elements_.resize(cut.size());
  std::transform(cut.begin(), cut.end(), elements_.begin(),
                 [](Token token) { return Element{static_cast<uint32_t>(token)}; });
  return elements_;
}

int32_t PagedCache::first_opened(const Group& group, const Match& match) const {
  if (group.kind == GroupKind::state) {
    return std::max(0, match.blocks - 1);
  }
  return first_block(group, tokens_of(match));
}

}  // namespace pome::kvcache
