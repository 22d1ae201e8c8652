#include "kvpool/kv_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "kvpool/page_memory.h"

namespace pome::kvpool {
namespace {

constexpr kvcache::KvFormat kFloats{.element = kvcache::KvElement::float32};

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
  const KvPool pool(two_groups(1, 8), {.group_pages = {3, 3}, .format = kFloats});
  for (const mx::array& pages : pool.handles()) {
    EXPECT_EQ(mx::max(mx::abs(pages)).item<float>(), 0.0f);
  }
}

TEST(KvPool, AppendedValuesLieAtTheirSlotsAndNowhereElse) {
  KvPool pool(two_groups(1, 8), {.group_pages = {4, 4}, .format = kFloats});
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
  KvPool pool(two_groups(1, 8), {.group_pages = {4, 4}, .format = kFloats});
  const mx::array v = ramp({1, 1, 8}, 2.0f);
  pool.append(2, ramp({1, 1, 8}, 0.0f), v, mx::array({2 * 16}, mx::int32));
  const kernels::PagedRows rows{.page_table = mx::array({2}, {1, 1}),
                                .row_offsets = mx::array({0, 1}, mx::int32),
                                .kv_lengths = mx::array({1}, mx::int32),
                                .row_tokens = {1}};
  const mx::array out =
      pool.attention(2, ramp({1, 3, 8}, -1.0f), rows, {.scale = 0.5f, .window = 8});
  const mx::array expected = mx::broadcast_to(v, {1, 3, 8});
  EXPECT_TRUE(mx::allclose(out, expected).item<bool>());
}

TEST(KvPool, KeepsTheSameMemoryWhileAnEarlierStepIsInFlight) {
  if (!KvPool::appends_in_place(two_groups(1, 8), {})) {
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

TEST(KvPool, TakesTheBytesThatItsFormatSays) {
  using kvcache::KvElement;
  const std::pair<kvcache::KvFormat, int64_t> kHeads[] = {
      {{KvElement::float32}, 4 * 96},      {{KvElement::float16}, 2 * 96},
      {{KvElement::bfloat16}, 2 * 96},     {{KvElement::int8, 32}, 96 + 3 * 4},
      {{KvElement::int8, 64}, 96 + 2 * 4}, {{KvElement::int4, 64}, 48 + 2 * 4},
      {{KvElement::int4, 128}, 48 + 4}};
  for (const auto& [format, head_bytes] : kHeads) {
    const KvPool pool(two_groups(3, 96), {.group_pages = {100, 50}, .format = format});
    EXPECT_EQ(format.head_bytes(96), head_bytes);
    int64_t bytes = 0;
    for (const mx::array& half : pool.handles()) {
      bytes += static_cast<int64_t>(half.nbytes());
    }
    EXPECT_EQ(bytes, (100 + 2 * 50) * 16 * 3 * 2 * head_bytes);
    EXPECT_LE(pool.bytes_reserved(), bytes + bytes / 50);
  }
}

TEST(KvPool, AttendsThroughIntegersAsThroughTheNumbersTheyStandFor) {
  for (const auto element : {kvcache::KvElement::int8, kvcache::KvElement::int4}) {
    KvPool pool(two_groups(1, 40), {.group_pages = {4, 4}, .format = {element, 32}});
    const mx::array v = mx::sin(ramp({3, 1, 40}, 2.0f));
    pool.append(1, mx::zeros({3, 1, 40}), v, mx::array({33, 34, 35}, mx::int32));
    const kernels::PagedRows rows{.page_table = mx::array({2}, {1, 1}),
                                  .row_offsets = mx::array({0, 1}, mx::int32),
                                  .kv_lengths = mx::array({4}, mx::int32),
                                  .row_tokens = {1}};
    // All scores are equal: a quarter of the three values, and of a slot that was never written.
    const mx::array out = pool.attention(1, mx::ones({1, 1, 40}), rows, {});
    const mx::array expected = mx::sum(v, 0) * mx::array(0.25f);
    const float step = element == kvcache::KvElement::int8 ? 2.0f / 255 : 2.0f / 15;
    EXPECT_LT(mx::max(mx::abs(mx::reshape(out, {40}) - mx::reshape(expected, {40}))).item<float>(),
              0.5f * step);
  }
}

TEST(KvPool, KeepsItsPeakMemoryOverALongDecode) {
  if (!KvPool::appends_in_place(two_groups(1, 8), {})) {
    GTEST_SKIP() << "the plain path copies while a step is in flight";
  }
  for (const auto element : {kvcache::KvElement::float16, kvcache::KvElement::int8}) {
    KvPool pool(two_groups(4, 64), {.group_pages = {256, 256}, .format = {element}});
    mx::array kv = ramp({1, 4, 64}, 1.0f);
    kv.eval();
    const size_t before = mx::get_active_memory();
    mx::reset_peak_memory();
    std::vector<mx::array> held = pool.handles();
    for (int32_t step = 0; step < 300; ++step) {
      for (int32_t layer = 0; layer < 3; ++layer) {
        pool.append(layer, kv, kv, mx::array({16 + step}, mx::int32));
      }
      mx::async_eval(pool.handles());
    }
    mx::eval(pool.handles());
    // One copy of one half would be 1.1 or 2 MiB.
    EXPECT_LT(mx::get_peak_memory() - before, size_t{1} << 20);
    for (size_t i = 0; i < held.size(); ++i) {
      EXPECT_EQ(held[i].data<void>(), pool.handles()[i].data<void>());
    }
  }
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
