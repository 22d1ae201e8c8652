#include "kvpool/kv_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pome::kvpool {
namespace {

kvcache::CacheSpec two_groups(int32_t kv_heads, int32_t head_dim) {
  kvcache::CacheSpec spec;
  spec.page_tokens = 16;
  kvcache::CacheGroup full{.kind = kvcache::GroupKind::full, .layers = {1}};
  kvcache::CacheGroup window{.kind = kvcache::GroupKind::window, .window = 8, .layers = {0, 2}};
  full.kv_heads = window.kv_heads = kv_heads;
  full.head_dim = window.head_dim = head_dim;
  spec.groups = {full, window};
  return spec;
}

mx::array ramp(const mx::Shape& shape, float start) {
  int count = 1;
  for (int extent : shape) {
    count *= extent;
  }
  return mx::reshape(mx::arange(count) * mx::array(0.25f) + mx::array(start), shape);
}

TEST(KvPool, KnowsTheGroupAndTheShapeOfEveryLayer) {
  const KvPool pool(two_groups(3, 8), {.group_pages = {4, 7}});
  EXPECT_EQ(pool.group_of(1), 0);
  EXPECT_EQ(pool.group_of(2), 1);
  EXPECT_EQ(pool.k_pages(1).shape(), (mx::Shape{4, 16, 3, 8}));
  EXPECT_EQ(pool.v_pages(0).shape(), (mx::Shape{7, 16, 3, 8}));
  EXPECT_EQ(pool.handles().size(), 6u);
  EXPECT_EQ(pool.pages(1), 7);
}

TEST(KvPool, ReadsAsZeroBeforeItIsWritten) {
  const KvPool pool(two_groups(1, 8), {.group_pages = {3, 3}, .dtype = mx::float32});
  for (const mx::array& pages : pool.handles()) {
    EXPECT_EQ(mx::max(mx::abs(pages)).item<float>(), 0.0f);
  }
}

TEST(KvPool, AppendedValuesLieAtTheirSlotsAndNowhereElse) {
  KvPool pool(two_groups(1, 8), {.group_pages = {4, 4}, .dtype = mx::float32});
  const mx::array k = ramp({2, 1, 8}, 1.0f);
  const mx::array v = ramp({2, 1, 8}, 100.0f);
  pool.append(1, k, v, mx::array({3 * 16 + 5, 1 * 16 + 15}, mx::int32));
  mx::eval(pool.handles());
  const mx::array flat = mx::reshape(pool.k_pages(1), {64, 8});
  EXPECT_TRUE(mx::array_equal(mx::take(flat, 53, 0), mx::flatten(mx::take(k, 0, 0))).item<bool>());
  EXPECT_TRUE(mx::array_equal(mx::take(flat, 31, 0), mx::flatten(mx::take(k, 1, 0))).item<bool>());
  EXPECT_EQ(mx::sum(pool.k_pages(1)).item<float>(), mx::sum(k).item<float>());
  EXPECT_EQ(mx::sum(pool.v_pages(1)).item<float>(), mx::sum(v).item<float>());
  EXPECT_EQ(mx::sum(pool.k_pages(0)).item<float>(), 0.0f);
}

TEST(KvPool, AttentionOfTheFirstTokenReturnsItsOwnValue) {
  KvPool pool(two_groups(1, 8), {.group_pages = {4, 4}, .dtype = mx::float32});
  const mx::array v = ramp({1, 1, 8}, 2.0f);
  pool.append(2, ramp({1, 1, 8}, 0.0f), v, mx::array({2 * 16}, mx::int32));
  const kernels::PagedRows rows{.page_table = mx::array({2}, {1, 1}),
                                .row_offsets = mx::array({0, 1}, mx::int32),
                                .kv_lengths = mx::array({1}, mx::int32),
                                .row_tokens_max = 1};
  const mx::array out =
      pool.attention(2, ramp({1, 3, 8}, -1.0f), rows, {.scale = 0.5f, .window = 8});
  const mx::array expected = mx::broadcast_to(v, {1, 3, 8});
  EXPECT_TRUE(mx::allclose(out, expected).item<bool>());
}

}  // namespace
}  // namespace pome::kvpool
