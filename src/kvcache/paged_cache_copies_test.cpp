#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kvcache/paged_cache.h"

// Sequences that begin inside a page of the prefix cache.
namespace pome::kvcache {
namespace {

constexpr SequenceId kFirst{1};
constexpr SequenceId kSecond{2};
constexpr SequenceId kThird{3};

CacheSpec spec_of(std::vector<CacheGroup> groups) {
  return {.page_tokens = 4, .checkpoint_tokens = 8, .groups = std::move(groups)};
}

CacheGroup full() {
  return {
      .kind = GroupKind::full, .layers = {0}, .kv_heads = 1, .head_dim = 8, .bytes_per_page = 1};
}

CacheGroup window(int32_t tokens) {
  CacheGroup group = full();
  group.kind = GroupKind::window;
  group.window = tokens;
  group.layers = {1};
  return group;
}

std::vector<Token> counted(int32_t count) {
  std::vector<Token> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

// One row of all that is left, in a step of its own; closed with its pages in the tree.
void run_whole(PagedCache& cache, SequenceId id, const std::vector<Token>& tokens, int64_t step) {
  const auto count = static_cast<int32_t>(tokens.size());
  cache.open(id, "", tokens, count - 1);
  ASSERT_TRUE(cache.grow(id, count));
  cache.take_copies(id);
  cache.step_built(step);
  cache.commit(id, tokens, count, true);
  cache.step_done(step);
  cache.close(id);
  cache.check_integrity();
}

TEST(PagedCacheCopies, AreOffUnlessAskedFor) {
  PagedCache cache(spec_of({full()}), {10});
  run_whole(cache, kFirst, counted(12), 1);
  EXPECT_EQ(cache.match("", counted(12), 11), 8);
  EXPECT_EQ(cache.open(kSecond, "", counted(12), 11), 8);
  ASSERT_TRUE(cache.grow(kSecond, 12));
  EXPECT_TRUE(cache.take_copies(kSecond).empty());
}

TEST(PagedCacheCopies, TheSamePromptAgainComputesItsLastTokenAlone) {
  PagedCache cache(spec_of({full()}), {10}, {.copy_pages = true});
  run_whole(cache, kFirst, counted(12), 1);
  EXPECT_EQ(cache.match("", counted(12), 11), 11);
  EXPECT_EQ(cache.open(kSecond, "", counted(12), 11), 11);
  cache.check_integrity();
  ASSERT_TRUE(cache.grow(kSecond, 12));
  cache.check_integrity();
  const std::vector<PageCopy> copies = cache.take_copies(kSecond);
  ASSERT_EQ(copies.size(), 1U);
  const std::vector<PageId> pages = cache.table(kSecond, 0).pages(0, 3);
  EXPECT_EQ(copies[0].to, pages[2]);
  EXPECT_NE(copies[0].from, pages[2]);
  EXPECT_TRUE(cache.take_copies(kSecond).empty()) << "given out once";
}

TEST(PagedCacheCopies, BeginWhereAPromptLeavesThePageThatIsMostLikeIt) {
  PagedCache cache(spec_of({full()}), {20}, {.copy_pages = true});
  run_whole(cache, kFirst, {1, 2, 3, 4, 5, 6, 7, 8}, 1);
  run_whole(cache, kSecond, {1, 2, 3, 4, 5, 6, 9, 9}, 2);
  EXPECT_EQ(cache.match("", std::vector<Token>{1, 2, 3, 4, 5, 6, 7, 1, 1}, 8), 7);
  EXPECT_EQ(cache.match("", std::vector<Token>{1, 2, 3, 4, 5, 6, 9, 1, 1}, 8), 7);
  EXPECT_EQ(cache.match("", std::vector<Token>{1, 2, 3, 4, 5, 1, 1, 1, 1}, 8), 5);
  EXPECT_EQ(cache.match("", std::vector<Token>{1, 2, 3, 4, 1}, 4), 4);
  EXPECT_EQ(cache.match("", std::vector<Token>{1, 2, 7}, 2), 2) << "in the first page too";
  EXPECT_EQ(cache.match("", std::vector<Token>{7, 2, 7}, 2), 0);
  EXPECT_EQ(cache.match("another", std::vector<Token>{1, 2, 7}, 2), 0);
}

TEST(PagedCacheCopies, WhatIsCopiedFromStaysUntilTheRowIsCommitted) {
  PagedCache cache(spec_of({full()}), {6}, {.copy_pages = true});  // 5 pages
  run_whole(cache, kFirst, counted(12), 1);
  ASSERT_EQ(cache.open(kSecond, "", counted(12), 11), 11);
  ASSERT_TRUE(cache.grow(kSecond, 12));  // 2 shared, 1 copied from, 1 copied to
  const std::vector<PageCopy> copies = cache.take_copies(kSecond);
  EXPECT_EQ(cache.pages_available(0), 1);
  ASSERT_EQ(cache.open(kThird, "", std::vector<Token>{7, 7, 7, 7, 7}, 4), 0);
  EXPECT_FALSE(cache.grow(kThird, 5)) << "two pages would be the one that is copied from";
  cache.step_built(2);
  cache.commit(kSecond, counted(12), 12, true);
  cache.step_done(2);
  cache.check_integrity();
  EXPECT_TRUE(cache.grow(kThird, 5));
  cache.check_integrity();
}

TEST(PagedCacheCopies, AreCountedWhenAPromptIsAdmitted) {
  PagedCache cache(spec_of({full()}), {10}, {.copy_pages = true});
  run_whole(cache, kFirst, counted(12), 1);
  EXPECT_THAT(cache.pages_opened("", counted(12), 11), testing::ElementsAre(4));
  const int32_t before = cache.pages_available(0);
  ASSERT_EQ(cache.open(kSecond, "", counted(12), 11), 11);
  ASSERT_TRUE(cache.grow(kSecond, 12));
  EXPECT_EQ(before - cache.pages_available(0), 4);
}

TEST(PagedCacheCopies, AreNotMadeWhereASequenceAloneWouldLackThePage) {
  PagedCache cache(spec_of({full()}), {4}, {.copy_pages = true});  // 3 pages
  run_whole(cache, kFirst, counted(12), 1);
  EXPECT_EQ(cache.open(kSecond, "", counted(12), 11), 8);
  EXPECT_TRUE(cache.grow(kSecond, 12));
}

TEST(PagedCacheCopies, OfAWindowAreMadeWhileItsPageIsThere) {
  PagedCache cache(spec_of({full(), window(4)}), {20, 20}, {.copy_pages = true});
  run_whole(cache, kFirst, counted(16), 1);
  ASSERT_EQ(cache.open(kSecond, "", counted(16), 15), 15);
  EXPECT_EQ(cache.table(kSecond, 1).first_block, 3) << "the window begins in the copied page";
  ASSERT_TRUE(cache.grow(kSecond, 16));
  EXPECT_EQ(cache.take_copies(kSecond).size(), 2U);
  cache.check_integrity();
  cache.step_built(2);
  cache.commit(kSecond, counted(16), 16, true);
  cache.step_done(2);
  cache.close(kSecond);
  cache.check_integrity();
  EXPECT_EQ(cache.stats().tokens_used, 0);
}

TEST(PagedCacheCopies, WhoClosesBeforeItsFirstRowGivesEverythingBack) {
  PagedCache cache(spec_of({full()}), {10}, {.copy_pages = true});
  run_whole(cache, kFirst, counted(12), 1);
  const int32_t before = cache.pages_available(0);
  ASSERT_EQ(cache.open(kSecond, "", counted(12), 11), 11);
  cache.close(kSecond);
  cache.check_integrity();
  EXPECT_EQ(cache.pages_available(0), before);
}

}  // namespace
}  // namespace pome::kvcache
