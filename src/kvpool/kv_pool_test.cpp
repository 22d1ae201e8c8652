#include "kvpool/kv_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "kernels/backend.h"
#include "kvpool/page_memory.h"

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

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
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

TEST(KvPool, KeepsTheSameMemoryWhileAnEarlierStepIsInFlight) {
  if (!kernels::own_cpu_kernels()) {
    GTEST_SKIP() << "the plain path copies while a step is in flight";
  }
  KvPool pool(two_groups(1, 8), {.group_pages = {4, 4}});
  const void* before = pool.k_pages(1).data<void>();
  for (int32_t step = 0; step < 8; ++step) {
    pool.append(1, ramp({1, 1, 8}, 1.0f), ramp({1, 1, 8}, 1.0f), mx::array({16 + step}, mx::int32));
    mx::async_eval(pool.handles());
  }
  mx::eval(pool.handles());
  EXPECT_EQ(pool.k_pages(1).data<void>(), before);
}

TEST(KvPool, CostsMemoryOnlyForThePagesThatWereWritten) {
  if (!PageMemory::commits_as_used()) {
    GTEST_SKIP() << "this back end fills pools with zeros";
  }
  const int64_t before = resident_bytes();
  KvPool pool(two_groups(8, 128), {.group_pages = {4096, 4096}});
  EXPECT_GT(pool.bytes_reserved(), int64_t{768} << 20);
  pool.append(1, ramp({1, 8, 128}, 1.0f), ramp({1, 8, 128}, 1.0f), mx::array({16}, mx::int32));
  mx::eval(pool.handles());
  EXPECT_LT(resident_bytes() - before, int64_t{8} << 20);
}

}  // namespace
}  // namespace pome::kvpool
