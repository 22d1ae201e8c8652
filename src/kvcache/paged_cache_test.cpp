#include "kvcache/paged_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace pome::kvcache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// ---- CountedPages

TEST(CountedPages, HandsOutTheOneReleasedLastFirstAndFreshOnesInOrder) {
  CountedPages pages(10);
  EXPECT_EQ(pages.allocate(), PageId{1});
  EXPECT_EQ(pages.allocate(), PageId{2});
  pages.release(PageId{1}, 0);
  pages.release(PageId{2}, 0);
  EXPECT_EQ(pages.allocate(), PageId{2});
  EXPECT_EQ(pages.allocate(), PageId{1});
  EXPECT_EQ(pages.allocate(), PageId{3});
}

TEST(CountedPages, HandsOutAllButTheSink) {
  CountedPages pages(4);
  for (int32_t page = 1; page <= 3; ++page) {
    EXPECT_EQ(pages.allocate(), PageId{page});
  }
  EXPECT_FALSE(pages.allocate().has_value());
  EXPECT_EQ(pages.pages_free(), 0);
}

TEST(CountedPages, FreesAPageWithItsLastReference) {
  CountedPages pages(4);
  const PageId page = pages.allocate().value();
  pages.retain(page);
  pages.release(page, 0);
  EXPECT_EQ(pages.pages_free(), 2);
  pages.release(page, 0);
  EXPECT_EQ(pages.pages_free(), 3);
}

TEST(CountedPages, CallsAPageEvictableWhileOnlyTheTreeHoldsIt) {
  CountedPages pages(4);
  const PageId page = pages.allocate().value();
  pages.cache(page);
  EXPECT_EQ(pages.pages_evictable(), 0);
  pages.release(page, 0);
  EXPECT_EQ(pages.pages_evictable(), 1);
  pages.retain(page);
  EXPECT_EQ(pages.pages_evictable(), 0);
  pages.uncache(page);
  EXPECT_EQ(pages.pages_free(), 2);
  pages.check_integrity({0, 1, 0, 0});
}

TEST(CountedPages, KeepsAReferenceUntilTheStepsThatUseItAreDone) {
  CountedPages pages(3);
  std::vector<PageId> idle;
  const PageId first = pages.allocate().value();
  const PageId second = pages.allocate().value();
  pages.step_built();
  pages.step_built();
  pages.release(second, 2);
  pages.release(first, 1);
  EXPECT_EQ(pages.pages_free(), 0);
  EXPECT_EQ(pages.references_waiting(), 2);
  pages.step_done(idle);
  EXPECT_EQ(pages.allocate(), first);
  EXPECT_FALSE(pages.allocate().has_value());
  pages.release(first, 1);
  EXPECT_EQ(pages.pages_free(), 1) << "the step that used it is done";
  pages.step_done(idle);
  EXPECT_EQ(pages.pages_free(), 2);
  EXPECT_THAT(idle, IsEmpty());
}

TEST(CountedPages, TellsWhichPagesBecameEvictableWhenAStepIsDone) {
  CountedPages pages(3);
  std::vector<PageId> idle;
  const PageId page = pages.allocate().value();
  pages.cache(page);
  pages.step_built();
  pages.release(page, 1);
  EXPECT_EQ(pages.pages_evictable(), 0);
  pages.step_done(idle);
  EXPECT_THAT(idle, ElementsAre(page));
  EXPECT_EQ(pages.pages_evictable(), 1);
}

TEST(CountedPagesDeathTest, EndsTheProcessWhenReferencesDoNotAddUp) {
  CountedPages pages(4);
  std::vector<PageId> idle;
  const PageId page = pages.allocate().value();
  EXPECT_DEATH(pages.check_integrity({0, 0, 0, 0}), "owners not counted");
  EXPECT_DEATH(pages.release(page, 1), "not built");
  EXPECT_DEATH(pages.step_done(idle), "not built");
  pages.release(page, 0);
  EXPECT_DEATH(pages.release(page, 0), "not in use");
  EXPECT_DEATH(pages.retain(page), "not in use");
  EXPECT_DEATH(pages.uncache(page), "does not hold");
  EXPECT_DEATH(pages.release(PageId{0}, 0), "no such page");
  EXPECT_DEATH(pages.release(PageId{4}, 0), "no such page");
  EXPECT_DEATH(pages.release(PageId{-1}, 0), "no such page");
}

// ---- RadixTree

RadixTree tree_of(Eviction eviction = Eviction::lru, std::vector<Holding> groups = {}) {
  return RadixTree(2, std::move(groups), eviction);
}

NodeId add(RadixTree& tree, NodeId parent, Element a, Element b) {
  const std::vector<Element> block = {a, b};
  return tree.add_child(parent, block);
}

TEST(RadixTree, FindsAChildOnlyByAllOfItsElements) {
  RadixTree tree = tree_of();
  const NodeId root = tree.make_root("");
  const NodeId one = add(tree, root, 1, 2);
  const NodeId two = add(tree, root, 1, 3);
  const NodeId large = add(tree, root, 1, Element{1} << 63 | 2);
  for (const auto& [last, node] : {std::pair{Element{2}, one},
                                   {Element{3}, two},
                                   {Element{1} << 63 | 2, large},
                                   {Element{4}, kNoNode}}) {
    EXPECT_EQ(tree.find_child(root, std::vector<Element>{1, last}), node);
  }
  tree.check_integrity();
}

TEST(RadixTree, KeepsNamespacesApartAndForgetsThemWithTheirLastNode) {
  RadixTree tree = tree_of();
  const NodeId node = add(tree, tree.make_root("a"), 1, 2);
  EXPECT_EQ(tree.find_root("b"), kNoNode);
  EXPECT_NE(tree.find_root("a"), kNoNode);
  tree.remove(node);
  EXPECT_EQ(tree.find_root("a"), kNoNode);
  EXPECT_EQ(tree.node_count(), 0U);
  tree.check_integrity();
}

TEST(RadixTree, KnowsThatANodeIsGoneWhenAnotherHasItsPlace) {
  RadixTree tree = tree_of();
  const NodeId root = tree.make_root("");
  add(tree, root, 9, 9);
  const NodeId node = add(tree, root, 1, 2);
  const NodeRef ref = tree.ref(node);
  EXPECT_EQ(tree.find(ref), node);
  tree.remove(node);
  EXPECT_EQ(tree.find(ref), kNoNode);
  EXPECT_EQ(add(tree, root, 1, 2), node);
  EXPECT_EQ(tree.find(ref), kNoNode);
}

TEST(RadixTree, EvictsIdleLeavesInTheOrderOfTheirLastUseAndThenThoseInUse) {
  RadixTree tree = tree_of();
  const NodeId root = tree.make_root("");
  const NodeId busy = add(tree, root, 1, 1);
  const NodeId first = add(tree, root, 2, 2);
  const NodeId second = add(tree, root, 3, 3);
  tree.set_idle(first, true);
  tree.set_idle(second, true);
  tree.use(first, true);
  for (const NodeId expected : {second, first, busy}) {
    EXPECT_EQ(tree.next_leaf(), expected);
    tree.remove(expected);
    tree.check_integrity();
  }
  EXPECT_EQ(tree.next_leaf(), kNoNode);
}

TEST(RadixTree, UsesThePathOfANodeThatIsUsed) {
  RadixTree tree = tree_of();
  const NodeId root = tree.make_root("");
  const NodeId parent = add(tree, root, 1, 1);
  const NodeId child = add(tree, parent, 2, 2);
  const NodeId other = add(tree, root, 3, 3);
  for (const NodeId node : {parent, child, other}) {
    tree.set_idle(node, true);
  }
  tree.use(child, true);
  EXPECT_EQ(tree.next_leaf(), other);
  tree.remove(child);
  EXPECT_EQ(tree.next_leaf(), other);
  tree.check_integrity();
}

TEST(RadixTree, EvictsWhatWasHitLeastOftenFirstUnderLfu) {
  RadixTree tree = tree_of(Eviction::lfu);
  const NodeId root = tree.make_root("");
  const NodeId parent = add(tree, root, 1, 1);
  const NodeId child = add(tree, parent, 2, 2);
  const NodeId twice = add(tree, root, 3, 3);
  tree.use(child, true);
  tree.use(parent, true);
  tree.use(twice, true);
  tree.use(twice, true);
  EXPECT_EQ(tree.next_leaf(), child);
  tree.use(child, true);
  tree.use(child, true);
  EXPECT_EQ(tree.next_leaf(), twice);
  tree.remove(child);  // the parent was hit with it
  EXPECT_EQ(tree.next_leaf(), twice);
  tree.check_integrity();
}

TEST(RadixTree, EvictsHoldingsByTheirOwnUseFromAnyNode) {
  RadixTree tree = tree_of(Eviction::lru, {Holding::optional});
  const NodeId parent = add(tree, tree.make_root(""), 1, 1);
  const NodeId child = add(tree, parent, 2, 2);
  tree.attach(parent, 0, PageId{1});
  tree.attach(child, 0, PageId{2});
  EXPECT_EQ(tree.next_holding(0), kNoNode) << "both are in use";
  tree.set_holding_idle(parent, 0, true);
  tree.set_holding_idle(child, 0, true);
  tree.use_holding(parent, 0);
  EXPECT_EQ(tree.next_holding(0), child);
  EXPECT_EQ(tree.detach(child, 0), PageId{2});
  tree.check_integrity();
  tree.remove_empty(child);
  EXPECT_EQ(tree.node_count(), 2U) << "its parent still holds something";
  tree.detach(parent, 0);
  tree.remove_empty(parent);
  EXPECT_EQ(tree.node_count(), 0U);
}

// ---- PagedCache

constexpr int32_t kPage = 4;

CacheSpec spec_of(const std::vector<CacheGroup>& groups, int32_t checkpoint_tokens = 8) {
  CacheSpec spec;
  spec.page_tokens = kPage;
  spec.checkpoint_tokens = checkpoint_tokens;
  spec.groups = groups;
  return spec;
}

CacheGroup full() {
  return {};
}
CacheGroup window(int32_t tokens) {
  CacheGroup group;
  group.kind = GroupKind::window;
  group.window = tokens;
  return group;
}
CacheGroup state() {
  CacheGroup group;
  group.kind = GroupKind::state;
  return group;
}

// `count` tokens from `first` on.
std::vector<Token> tokens_of(int32_t count, Token first = 0) {
  std::vector<Token> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<Token> joined(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<int32_t> pages_of(const PagedCache& cache, uint64_t id, size_t group = 0) {
  const PageTable& table = cache.table(SequenceId{id}, group);
  std::vector<int32_t> pages;
  for (const PageId page : table.pages(table.first_block, table.blocks())) {
    pages.push_back(static_cast<int32_t>(page));
  }
  return pages;
}

// Steps of one sequence after the other, nothing else in flight.
class Driver {
 public:
  explicit Driver(PagedCache& cache) : cache_(cache) {}

  int32_t open(uint64_t id, const std::vector<Token>& tokens, std::string_view salt = "") {
    const auto limit = static_cast<int32_t>(tokens.size()) - 1;
    position_[id] = cache_.open(SequenceId{id}, salt, tokens, limit);
    return position_[id];
  }
  // Rows of at most `row` tokens to the end of `tokens`.
  void advance(uint64_t id, const std::vector<Token>& tokens, int32_t row = 1000) {
    int32_t& position = position_[id];
    while (position < static_cast<int32_t>(tokens.size())) {
      const auto left = static_cast<int32_t>(tokens.size()) - position;
      position += cache_.row_tokens(position, std::min(row, left));
      ASSERT_TRUE(cache_.grow(SequenceId{id}, position));
      slots_ = cache_.state_slots(SequenceId{id});
      cache_.step_built(++step_);
      cache_.step_done(step_);
      cache_.commit(SequenceId{id}, tokens, position, true);
      cache_.check_integrity();
    }
  }
  // From open to close; how many tokens came from the cache.
  int32_t run(uint64_t id, const std::vector<Token>& tokens, std::string_view salt = "") {
    const int32_t cached = open(id, tokens, salt);
    advance(id, tokens);
    cache_.close(SequenceId{id});
    cache_.check_integrity();
    return cached;
  }
  // Of the last row.
  StateSlots slots() const { return slots_; }

 private:
  PagedCache& cache_;
  std::map<uint64_t, int32_t> position_;
  StateSlots slots_;
  int64_t step_ = 0;
};

TEST(PagedCache, HandsOutPagesAsASequenceGrows) {
  PagedCache cache(spec_of({full(), full()}), {11, 6});
  cache.open(SequenceId{1}, "", tokens_of(1), 0);
  for (const auto& [tokens, pages] : {std::pair{1, 1U}, {4, 1U}, {5, 2U}, {8, 2U}, {12, 3U}}) {
    ASSERT_TRUE(cache.grow(SequenceId{1}, tokens));
    EXPECT_EQ(pages_of(cache, 1, 0).size(), pages);
    EXPECT_EQ(pages_of(cache, 1, 1).size(), pages);
    cache.check_integrity();
  }
}

TEST(PagedCache, GrowsUpToTheSmallestGroupAndChangesNothingPastIt) {
  PagedCache cache(spec_of({full(), full()}), {11, 6});
  EXPECT_EQ(cache.tokens_max(8), 20);
  cache.open(SequenceId{1}, "", {}, 0);
  EXPECT_FALSE(cache.grow(SequenceId{1}, 21));
  EXPECT_THAT(pages_of(cache, 1), IsEmpty());
  EXPECT_TRUE(cache.grow(SequenceId{1}, 20));
  EXPECT_EQ(cache.pages_available(1), 0);
  EXPECT_EQ(cache.stats().tokens_used, 20);
}

TEST(PagedCache, OpensWithTheWholePagesThatAnotherSequenceComputed) {
  PagedCache cache(spec_of({full()}), {20});
  Driver driver(cache);
  const std::vector<Token> first = tokens_of(14);
  driver.open(1, first);
  driver.advance(1, first);
  EXPECT_EQ(driver.open(2, joined(tokens_of(13), {99, 98})), 12);
  EXPECT_THAT(pages_of(cache, 2), ElementsAre(1, 2, 3));
  driver.advance(2, joined(tokens_of(13), {99, 98}));
  EXPECT_THAT(pages_of(cache, 2), ElementsAre(1, 2, 3, 5)) << "the partial page is its own";
  EXPECT_EQ(cache.stats().tokens_used, 20);
}

TEST(PagedCache, RecomputesAtMostTheLastPageOfARepeatedPrompt) {
  PagedCache cache(spec_of({full()}), {20});
  Driver driver(cache);
  for (int32_t length = 1; length <= 17; ++length) {
    driver.run(1, tokens_of(length, 100 * length));
    const int32_t cached = driver.run(2, tokens_of(length, 100 * length));
    EXPECT_EQ(cached, (length - 1) / kPage * kPage) << length;
    EXPECT_EQ(driver.run(3, tokens_of(length, 100 * length)), cached) << "on every repeat";
  }
}

TEST(PagedCache, NeverMatchesPastTheLimitOrAcrossNamespaces) {
  PagedCache cache(spec_of({full()}), {20});
  Driver driver(cache);
  driver.run(1, tokens_of(16), "a");
  EXPECT_EQ(cache.match("a", tokens_of(16), 15), 12);
  EXPECT_EQ(cache.match("a", tokens_of(16), 16), 16);
  EXPECT_EQ(cache.match("a", tokens_of(16), 1000), 16);
  EXPECT_EQ(cache.match("a", tokens_of(7), 1000), 4);
  EXPECT_EQ(cache.match("a", tokens_of(16), 3), 0);
  EXPECT_EQ(cache.match("", tokens_of(16), 16), 0);
  EXPECT_EQ(cache.match("b", tokens_of(16), 16), 0);
}

TEST(PagedCache, FindsNothingBeforeItIsCommittedOrWithoutShare) {
  PagedCache cache(spec_of({full()}), {20});
  cache.open(SequenceId{1}, "", tokens_of(8), 7);
  ASSERT_TRUE(cache.grow(SequenceId{1}, 8));
  EXPECT_EQ(cache.match("", tokens_of(8), 8), 0);
  cache.commit(SequenceId{1}, tokens_of(8), 8, false);
  EXPECT_EQ(cache.match("", tokens_of(8), 8), 0);
  cache.commit(SequenceId{1}, tokens_of(8), 8, true);
  EXPECT_EQ(cache.match("", tokens_of(8), 8), 8);
}

TEST(PagedCache, EvictsWhatWasUsedLongestAgoAndAHitIsAUse) {
  PagedCache cache(spec_of({full()}), {5});  // two prefixes of two pages
  Driver driver(cache);
  const std::vector<Token> a = tokens_of(8, 100);
  const std::vector<Token> b = tokens_of(8, 200);
  driver.run(1, a);
  driver.run(2, b);
  EXPECT_EQ(cache.open(SequenceId{3}, "", a, 4), 4);
  ASSERT_TRUE(cache.grow(SequenceId{3}, 5));  // in place of the end of a
  cache.close(SequenceId{3});
  EXPECT_EQ(cache.match("", a, 8), 4);
  driver.run(4, tokens_of(8, 300));
  EXPECT_EQ(cache.match("", b, 8), 4) << "its end made room";
  EXPECT_EQ(cache.match("", a, 8), 4);
  EXPECT_EQ(cache.stats().evictions_total, 2);
}

TEST(PagedCache, NeverEvictsWhatASequenceHolds) {
  PagedCache cache(spec_of({full()}), {5});
  Driver driver(cache);
  driver.open(1, tokens_of(12));
  driver.advance(1, tokens_of(12));
  cache.open(SequenceId{2}, "", {}, 0);
  EXPECT_EQ(cache.pages_available(0), 1);
  EXPECT_FALSE(cache.grow(SequenceId{2}, 5));
  EXPECT_EQ(cache.match("", tokens_of(12), 12), 12) << "a refusal evicts nothing";
  cache.close(SequenceId{1});
  EXPECT_TRUE(cache.grow(SequenceId{2}, 5));
  cache.check_integrity();
}

// Two sequences computed the same prefix at the same time, so the tree holds the first one's pages
// and below them what only the second one has.
TEST(PagedCache, DropsLeavesInUseToReachAncestorsThatNobodyHolds) {
  PagedCache cache(spec_of({full()}), {8});
  Driver driver(cache);
  driver.open(1, tokens_of(8));
  driver.open(2, tokens_of(12));
  driver.advance(1, tokens_of(8));
  driver.advance(2, tokens_of(12));
  cache.close(SequenceId{1});
  EXPECT_EQ(cache.pages_available(0), 4);
  cache.open(SequenceId{3}, "", {}, 0);
  EXPECT_TRUE(cache.grow(SequenceId{3}, 16));
  EXPECT_EQ(cache.stats().nodes, 0);
  cache.check_integrity();
  driver.advance(2, tokens_of(12));
  cache.close(SequenceId{3});
  driver.advance(2, tokens_of(16));
  EXPECT_EQ(cache.match("", tokens_of(16), 16), 16) << "what was dropped is shared again";
}

TEST(PagedCache, DoesNotHandOutWhatAStepInFlightReads) {
  PagedCache cache(spec_of({full()}), {3});
  cache.open(SequenceId{1}, "", {}, 0);
  ASSERT_TRUE(cache.grow(SequenceId{1}, 8));
  cache.step_built(1);
  cache.close(SequenceId{1});
  cache.open(SequenceId{2}, "", {}, 0);
  EXPECT_EQ(cache.pages_available(0), 0);
  EXPECT_FALSE(cache.grow(SequenceId{2}, 1));
  cache.step_done(1);
  EXPECT_TRUE(cache.grow(SequenceId{2}, 8));
}

TEST(PagedCache, GivesBackAtOnceWhatNoStepInFlightReads) {
  PagedCache cache(spec_of({full()}), {6});
  Driver driver(cache);
  driver.open(1, tokens_of(8));
  driver.advance(1, tokens_of(8));
  cache.open(SequenceId{2}, "", {}, 0);
  ASSERT_TRUE(cache.grow(SequenceId{2}, 1));
  cache.step_built(100);
  cache.close(SequenceId{1});
  EXPECT_EQ(cache.pages_available(0), 4) << "the step has a row of the other sequence only";
  ASSERT_EQ(cache.open(SequenceId{3}, "", tokens_of(8), 8), 8);
  EXPECT_EQ(cache.pages_available(0), 2);
  cache.close(SequenceId{3});
  EXPECT_EQ(cache.pages_available(0), 4) << "it never had a row";
  cache.check_integrity();
}

TEST(PagedCache, CountsARowInTheStepThatIsBuiltAfterItsLastGrow) {
  PagedCache cache(spec_of({full()}), {4});
  cache.open(SequenceId{1}, "", {}, 0);
  cache.open(SequenceId{2}, "", {}, 0);
  ASSERT_TRUE(cache.grow(SequenceId{1}, 4));
  ASSERT_TRUE(cache.grow(SequenceId{2}, 4));
  cache.step_built(1);  // the row of 1 did not go with it
  ASSERT_TRUE(cache.grow(SequenceId{1}, 4));
  cache.step_built(2);
  cache.step_done(1);
  cache.close(SequenceId{1});
  EXPECT_EQ(cache.pages_available(0), 1);
  cache.step_done(2);
  EXPECT_EQ(cache.pages_available(0), 2);
}

TEST(PagedCache, NotesTheUseOfAPrefixWhenTheSequenceGrows) {
  PagedCache cache(spec_of({full()}), {5});
  Driver driver(cache);
  driver.run(1, tokens_of(8, 100));
  driver.run(2, tokens_of(8, 200));
  EXPECT_EQ(cache.open(SequenceId{3}, "", tokens_of(8, 100), 8), 8);
  cache.close(SequenceId{3});  // found no room
  driver.run(4, tokens_of(4, 300));
  EXPECT_EQ(cache.match("", tokens_of(8, 100), 8), 4);
  EXPECT_EQ(cache.match("", tokens_of(8, 200), 8), 8);
}

TEST(PagedCache, EvictsWhileAStepIsInFlightThatDoesNotReadIt) {
  PagedCache cache(spec_of({full()}), {4});
  Driver(cache).run(1, tokens_of(8));
  cache.open(SequenceId{2}, "", {}, 0);
  ASSERT_TRUE(cache.grow(SequenceId{2}, 1));
  cache.step_built(100);
  EXPECT_EQ(cache.pages_available(0), 2);
  EXPECT_TRUE(cache.grow(SequenceId{2}, 12));
  cache.check_integrity();
}

TEST(PagedCache, CountsThePagesThatOpeningWouldTake) {
  PagedCache cache(spec_of({full(), window(5)}), {20, 20});
  Driver driver(cache);
  driver.run(1, tokens_of(17));
  EXPECT_THAT(cache.pages_opened("", tokens_of(17), 16), ElementsAre(4, 1));
  driver.open(2, tokens_of(9));
  EXPECT_THAT(cache.pages_opened("", tokens_of(17), 16), ElementsAre(2, 1));
}

TEST(PagedCache, ForgetsEveryPrefixAndWhatWasComputedBeforeAFlush) {
  PagedCache cache(spec_of({full()}), {20});
  Driver driver(cache);
  driver.run(1, tokens_of(8));
  driver.open(2, tokens_of(20, 50));
  driver.advance(2, tokens_of(8, 50));
  cache.flush_cache();
  EXPECT_EQ(cache.match("", tokens_of(8), 8), 0);
  EXPECT_EQ(cache.stats().tokens_cached, 0);
  driver.advance(2, tokens_of(20, 50));
  EXPECT_EQ(cache.match("", tokens_of(20, 50), 20), 0);
  cache.close(SequenceId{2});
  EXPECT_EQ(cache.pages_available(0), 19);
  EXPECT_EQ(driver.run(3, tokens_of(8)), 0);
  EXPECT_EQ(driver.run(4, tokens_of(8)), 4);
}

TEST(PagedCache, KeepsNothingWithoutAPrefixCache) {
  PagedCache cache(spec_of({full(), state()}), {20, 2}, {.prefix_cache = false});
  Driver driver(cache);
  driver.run(1, tokens_of(17));
  EXPECT_EQ(driver.run(2, tokens_of(17)), 0);
  EXPECT_EQ(cache.stats().nodes, 0);
  EXPECT_EQ(cache.pages_available(0), 19);
}

TEST(PagedCache, CountsTheBytesOfWhatRunsAndOfWhatIsOnlyCached) {
  CacheSpec spec = spec_of({full(), window(6), state()});
  spec.groups[0].bytes_per_page = 1;
  spec.groups[1].bytes_per_page = 100;
  spec.groups[2].bytes_per_page = 10000;
  PagedCache cache(spec, {20, 20, 9});
  Driver driver(cache);
  driver.open(1, tokens_of(14));
  driver.advance(1, tokens_of(14));
  // Four pages, of the window those from position 9 on, and the state at the end. Only cached are
  // two pages of the window and the state at 8.
  EXPECT_EQ(cache.stats().bytes_used, 4 * 1 + 2 * 100 + 1 * 10000);
  EXPECT_EQ(cache.stats().bytes_cached, 2 * 100 + 1 * 10000);
  EXPECT_EQ(cache.stats().tokens_used, 16);
  EXPECT_EQ(cache.stats().tokens_cached, 8);
  cache.close(SequenceId{1});
  EXPECT_EQ(cache.stats().bytes_used, 0);
  EXPECT_EQ(cache.stats().tokens_cached, 12);
}

TEST(PagedCache, LosesNoPageInAThousandAborts) {
  PagedCache cache(spec_of({full(), window(6), state()}), {30, 30, 6});
  Driver driver(cache);
  for (uint64_t id = 1; id <= 1000; ++id) {
    const std::vector<Token> tokens = tokens_of(20, static_cast<Token>(id % 7) * 1000);
    driver.open(id, tokens);
    driver.advance(id, {tokens.begin(), tokens.begin() + 1 + static_cast<int32_t>(id % 19)}, 5);
    cache.close(SequenceId{id});
  }
  cache.check_integrity();
  EXPECT_EQ(cache.pages_available(0), 29);
  EXPECT_EQ(cache.pages_available(1), 29);
  EXPECT_EQ(cache.pages_available(2), 5);
}

// ---- window groups

TEST(PagedCache, KeepsOnlyTheWindowPagesThatAreStillSeen) {
  PagedCache cache(spec_of({full(), window(6)}), {20, 20});
  Driver driver(cache);
  driver.open(1, tokens_of(20));
  driver.advance(1, tokens_of(20), 3);  // position 20 sees 15 and later
  EXPECT_EQ(cache.table(SequenceId{1}, 1).first_block, 3);
  EXPECT_EQ(pages_of(cache, 1, 1).size(), 2U);
  EXPECT_EQ(pages_of(cache, 1, 0).size(), 5U);
}

TEST(PagedCache, RestoresAWindowAtEachPageOfAPrefix) {
  PagedCache cache(spec_of({full(), window(6)}), {20, 20});
  Driver driver(cache);
  driver.run(1, tokens_of(20));
  for (int32_t length = 4; length <= 20; length += 4) {
    const std::vector<Token> tokens = joined(tokens_of(length), {99});
    EXPECT_EQ(driver.open(2, tokens), length);
    const int32_t first = std::max(0, length - 5) / kPage;
    EXPECT_EQ(cache.table(SequenceId{2}, 1).first_block, first);
    EXPECT_EQ(static_cast<int32_t>(pages_of(cache, 2, 1).size()), length / kPage - first);
    cache.close(SequenceId{2});
  }
}

TEST(PagedCache, MatchesOnlyWhereEveryWindowPageIsStillThere) {
  PagedCache cache(spec_of({full(), window(6)}), {30, 8});
  Driver driver(cache);
  driver.run(1, tokens_of(20));
  // Seven window pages: four are evicted, and of the first prompt one is left.
  driver.open(2, tokens_of(24, 500));
  driver.advance(2, tokens_of(24, 500), 4);
  EXPECT_GT(cache.stats().window_evictions_total, 0);
  EXPECT_EQ(cache.match("", joined(tokens_of(20), {99}), 20), 0);
  EXPECT_EQ(driver.open(3, joined(tokens_of(20), {99})), 0);
  cache.close(SequenceId{2});
  driver.advance(3, joined(tokens_of(20), {99}), 4);  // its window pages fill the gaps
  cache.close(SequenceId{3});
  EXPECT_EQ(cache.match("", joined(tokens_of(20), {99}), 20), 20);
  cache.check_integrity();
}

TEST(PagedCache, KeepsWindowPagesThatAHitNeeded) {
  PagedCache cache(spec_of({full(), window(4)}), {40, 6});
  Driver driver(cache);
  const std::vector<Token> system = tokens_of(8);
  driver.run(1, joined(system, tokens_of(4, 100)));
  for (uint64_t id = 2; id < 20; id += 2) {
    const auto own = static_cast<Token>(100 * id);
    EXPECT_EQ(driver.run(id, joined(system, tokens_of(4, own))), 8) << id;
    driver.run(id + 1, tokens_of(4, own + 50));
  }
  EXPECT_GT(cache.stats().window_evictions_total, 0);
}

TEST(PagedCache, FitsAnEndlessSequenceIntoAWindowAndTwoRows) {
  const int32_t needed = 1 + (5 + 2 * 8 + kPage - 2) / kPage;  // 6 − 1 + 2 rows of 8, unaligned
  EXPECT_GT(PagedCache(spec_of({window(6)}), {needed + 1}).tokens_max(8), 1000000);
  EXPECT_EQ(PagedCache(spec_of({window(6)}), {needed}).tokens_max(8), (needed - 1) * kPage);
}

TEST(PagedCache, TellsHowManyPagesASequenceStillNeeds) {
  const PagedCache cache(spec_of({full(), window(6), state()}), {9, 9, 9});
  EXPECT_EQ(cache.pages_needed(0, 0, 21, 8), 6);
  EXPECT_EQ(cache.pages_needed(0, 8, 21, 8), 4);
  EXPECT_EQ(cache.pages_needed(1, 0, 7, 8), 2);
  EXPECT_EQ(cache.pages_needed(1, 0, 1000, 1), 3);
  EXPECT_EQ(cache.pages_needed(1, 100, 1000, 1), 1) << "it holds the pages of 95 to 99";
  EXPECT_EQ(cache.pages_needed(1, 100, 100, 1), 0);
  EXPECT_EQ(cache.pages_needed(2, 0, 8, 8), 1);
  EXPECT_EQ(cache.pages_needed(2, 0, 9, 8), 2) << "the state at 8 is kept";
  EXPECT_EQ(cache.pages_needed(2, 8, 9, 8), 1);
  EXPECT_EQ(cache.pages_needed(2, 9, 16, 8), 0);
  EXPECT_EQ(cache.pages_needed(2, 9, 17, 8), 1);
  EXPECT_EQ(cache.pages_needed(2, 0, 0, 8), 0);
}

// ---- state groups

TEST(PagedCache, EndsARowAtTheNextCheckpointOfARecurrentModel) {
  const PagedCache recurrent(spec_of({full(), state()}), {20, 5});
  EXPECT_EQ(recurrent.row_tokens(0, 100), 8);
  EXPECT_EQ(recurrent.row_tokens(5, 100), 3);
  EXPECT_EQ(recurrent.row_tokens(5, 2), 2);
  EXPECT_EQ(recurrent.row_tokens(8, 100), 8);
  EXPECT_EQ(PagedCache(spec_of({full()}), {20}).row_tokens(5, 100), 100);
}

TEST(PagedCache, WritesAStateInPlaceUntilACheckpointKeepsIt) {
  PagedCache cache(spec_of({full(), state()}), {20, 5});
  Driver driver(cache);
  driver.open(1, tokens_of(20));
  driver.advance(1, tokens_of(3));
  const StateSlots first = driver.slots();
  EXPECT_FALSE(first.in.has_value());
  for (const int32_t end : {5, 8}) {
    driver.advance(1, tokens_of(end));
    EXPECT_EQ(driver.slots().in, first.out);
    EXPECT_EQ(driver.slots().out, first.out);
  }
  driver.advance(1, tokens_of(9));
  EXPECT_EQ(driver.slots().in, first.out);
  EXPECT_NE(driver.slots().out, first.out);
  EXPECT_EQ(cache.stats().snapshots, 1);
}

TEST(PagedCache, OpensARecurrentModelAtTheDeepestSnapshotAndWritesElsewhere) {
  PagedCache cache(spec_of({full(), state()}), {20, 5});
  Driver driver(cache);
  driver.run(1, tokens_of(20));
  EXPECT_EQ(cache.stats().snapshots, 2);
  EXPECT_EQ(cache.match("", tokens_of(20), 20), 16);
  EXPECT_EQ(cache.match("", tokens_of(20), 15), 8);
  EXPECT_EQ(cache.match("", tokens_of(20), 7), 0) << "the pages are there, the state is not";
  EXPECT_EQ(driver.open(2, tokens_of(20)), 16);
  EXPECT_EQ(driver.open(3, tokens_of(20)), 16);
  driver.advance(2, tokens_of(17));
  const StateSlots two = driver.slots();
  driver.advance(3, tokens_of(17));
  const StateSlots three = driver.slots();
  EXPECT_EQ(two.in, three.in);
  EXPECT_NE(two.out, two.in);
  EXPECT_NE(two.out, three.out);
}

TEST(PagedCache, HitsASnapshotOnEveryRepeat) {
  PagedCache cache(spec_of({full(), state()}), {40, 5});
  Driver driver(cache);
  const std::vector<Token> turns = tokens_of(30);
  for (uint64_t round = 0; round < 5; ++round) {
    for (const int32_t turn : {10, 20, 30}) {
      const int32_t cached = driver.run(round * 10 + static_cast<uint64_t>(turn),
                                        {turns.begin(), turns.begin() + turn});
      EXPECT_GE(cached, round == 0 ? turn - 18 : turn - 9) << "at most a checkpoint is repeated";
    }
  }
}

TEST(PagedCache, EvictsASnapshotAndKeepsItsPages) {
  PagedCache cache(spec_of({full(), state()}), {40, 3});
  Driver driver(cache);
  driver.run(1, tokens_of(9));
  EXPECT_EQ(cache.stats().snapshots, 1);
  driver.run(2, tokens_of(17, 500));
  EXPECT_EQ(cache.stats().snapshot_evictions_total, 2) << "two slots do for a sequence alone";
  EXPECT_EQ(cache.match("", tokens_of(9), 8), 0);
  EXPECT_EQ(cache.match("", tokens_of(17, 500), 16), 16);
}

TEST(PagedCache, KeepsNoPathWithoutASnapshotAtItsEnd) {
  PagedCache cache(spec_of({state()}), {3});
  Driver driver(cache);
  EXPECT_EQ(driver.run(1, tokens_of(15)), 0);
  EXPECT_EQ(cache.stats().nodes, 1 + 8 / kPage);
  EXPECT_EQ(driver.run(2, tokens_of(15)), 8);
  driver.run(3, tokens_of(20, 500));
  EXPECT_EQ(cache.stats().nodes, 1 + 16 / kPage) << "the first path went with its snapshot";
}

TEST(PagedCacheDeathTest, EndsTheProcessOnWrongUse) {
  PagedCache cache(spec_of({full(), state()}), {20, 5});
  cache.open(SequenceId{1}, "", {}, 0);
  EXPECT_DEATH(cache.open(SequenceId{1}, "", {}, 0), "opened once");
  EXPECT_DEATH(cache.close(SequenceId{2}), "no such sequence");
  EXPECT_DEATH(cache.grow(SequenceId{1}, 9), "ends at a checkpoint");
  ASSERT_TRUE(cache.grow(SequenceId{1}, 5));
  EXPECT_DEATH(cache.grow(SequenceId{1}, 4), "does not shrink");
  EXPECT_DEATH(cache.commit(SequenceId{1}, tokens_of(6), 6, true), "grown before");
  EXPECT_DEATH(cache.commit(SequenceId{1}, tokens_of(4), 5, true), "a token for each");
}

TEST(PagedCacheDeathTest, EndsTheProcessWhenStepsAreOutOfOrder) {
  PagedCache cache(spec_of({full()}), {20});
  EXPECT_DEATH(cache.step_done(1), "order built");
  cache.step_built(5);
  EXPECT_DEATH(cache.step_built(5), "ascending");
  cache.step_built(6);
  EXPECT_DEATH(cache.step_built(7), "at most two");
  EXPECT_DEATH(cache.step_done(6), "order built");
}

TEST(PagedCacheDeathTest, EndsTheProcessOnASpecItCannotHold) {
  CacheGroup cross;
  cross.kind = GroupKind::cross;
  EXPECT_DEATH(PagedCache(spec_of({cross}), {9}), "encoder");
  EXPECT_DEATH(PagedCache(spec_of({state(), state()}), {9, 9}), "at most one");
  EXPECT_DEATH(PagedCache(spec_of({state()}, 6), {9}), "ends of pages");
  EXPECT_DEATH(PagedCache(spec_of({window(0)}), {9}), "at least one token");
  EXPECT_DEATH(PagedCache(spec_of({full()}), {9, 9}), "each cache group");
  EXPECT_DEATH(PagedCache(spec_of({full()}), {1}), "the sink and");
}

}  // namespace
}  // namespace pome::kvcache
