#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvcache/page_allocator.h"
#include "kvcache/page_store.h"

namespace pome::kvcache {
namespace {

CacheSpec spec_of(size_t groups, int32_t page_tokens = 4) {
  CacheSpec spec;
  spec.page_tokens = page_tokens;
  spec.groups.resize(groups);
  return spec;
}

TEST(PageAllocator, NeverHandsOutTheSink) {
  PageAllocator pages(4);
  EXPECT_EQ(pages.pages_free(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(pages.allocate().value(), PageId{0});
  }
  EXPECT_FALSE(pages.allocate().has_value());
  pages.check_integrity();
}

TEST(PageAllocator, HandsOutThePageReleasedLastFirst) {
  PageAllocator pages(10);
  const PageId first = pages.allocate().value();
  const PageId second = pages.allocate().value();
  EXPECT_EQ(first, PageId{1});
  pages.release(first);
  pages.release(second);
  EXPECT_EQ(pages.allocate().value(), second);
  EXPECT_EQ(pages.allocate().value(), first);
}

TEST(PageAllocatorDeathTest, EndsTheProcessWhenAPageIsReleasedTwice) {
  PageAllocator pages(4);
  const PageId page = pages.allocate().value();
  pages.release(page);
  EXPECT_DEATH(pages.release(page), "not in use");
  EXPECT_DEATH(pages.release(PageId{0}), "not in use");
  EXPECT_DEATH(pages.release(PageId{4}), "not in use");
  EXPECT_DEATH(pages.release(PageId{-1}), "not in use");
}

TEST(PageStore, HandsOutPagesAsASequenceGrows) {
  PageStore store(spec_of(2), {11, 6});
  ASSERT_TRUE(store.admit(SequenceId{1}, 12));
  EXPECT_EQ(store.pages(SequenceId{1}, 0).size(), 0U);
  for (const auto& [tokens, pages] : {std::pair{1, 1}, {4, 1}, {5, 2}, {8, 2}, {12, 3}}) {
    store.grow(SequenceId{1}, tokens);
    EXPECT_EQ(store.pages(SequenceId{1}, 0).size(), static_cast<size_t>(pages)) << tokens;
    EXPECT_EQ(store.pages(SequenceId{1}, 1).size(), static_cast<size_t>(pages)) << tokens;
    store.check_integrity();
  }
}

TEST(PageStore, AdmitsUpToTheSmallestGroupAndNotOnePageMore) {
  PageStore store(spec_of(2), {11, 6});
  EXPECT_EQ(store.tokens_max(), 20);
  EXPECT_FALSE(store.admit(SequenceId{1}, 21));
  EXPECT_TRUE(store.admit(SequenceId{1}, 20));
}

TEST(PageStore, CountsPromisesOfSequencesThatHaveNotGrownYet) {
  PageStore store(spec_of(1), {11});
  ASSERT_TRUE(store.admit(SequenceId{1}, 24));
  EXPECT_FALSE(store.admit(SequenceId{2}, 17));
  ASSERT_TRUE(store.admit(SequenceId{2}, 16));
  store.grow(SequenceId{2}, 16);
  store.grow(SequenceId{1}, 24);
  EXPECT_EQ(store.tokens_used(), 40);
  store.check_integrity();
}

TEST(PageStore, ReleaseGivesBackPagesAndTheRestOfThePromise) {
  PageStore store(spec_of(1), {11});
  ASSERT_TRUE(store.admit(SequenceId{1}, 40));
  store.grow(SequenceId{1}, 9);
  store.release(SequenceId{1});
  store.check_integrity();
  EXPECT_EQ(store.tokens_used(), 0);
  EXPECT_TRUE(store.admit(SequenceId{2}, 40));
}

TEST(PageStoreDeathTest, EndsTheProcessWhenASequenceGrowsPastItsPromise) {
  PageStore store(spec_of(1), {11});
  ASSERT_TRUE(store.admit(SequenceId{1}, 8));
  EXPECT_DEATH(store.grow(SequenceId{1}, 9), "grew past");
  EXPECT_DEATH(store.release(SequenceId{2}), "holds no pages");
}

}  // namespace
}  // namespace pome::kvcache
