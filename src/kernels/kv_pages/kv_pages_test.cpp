#include "kernels/kv_pages/kv_pages.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/counters.h"
#include "kernels/kernel_testing.h"

namespace pome::kernels {
namespace {

using kvcache::KvElement;
using testing::array_of;
using testing::int_array;
using testing::normal_array;
using testing::normal_floats;
using testing::relative_error;
using testing::same_bits;
using testing::values_of;

CodedHeads coding(KvElement element, int32_t dim, int32_t group_size) {
  return {dim, {.element = element, .group_size = group_size}};
}

// An empty pool of integers.
KvPages coded_pool(const CodedHeads& coded, int pages, int page_tokens, int heads) {
  const auto bytes = static_cast<int>(coded.format.head_bytes(coded.dim));
  const auto half = [&] {
    return mx::contiguous(mx::zeros({pages, page_tokens, heads, bytes}, mx::uint8));
  };
  return {half(), half(), coded};
}

// Numbers of every size, whole groups of one number, and zeros.
std::vector<float> mixed_floats(int tokens, int heads, int dim, uint32_t seed) {
  std::vector<float> values = normal_floats(static_cast<size_t>(tokens) * heads * dim, seed);
  for (int t = 0; t < tokens; ++t) {
    for (int h = 0; h < heads; ++h) {
      float* head = values.data() + (t * heads + h) * dim;
      const int kind = (t * heads + h) % 7;
      for (int c = 0; c < dim; ++c) {
        head[c] = kind == 0   ? 0.0f
                  : kind == 1 ? 3.14159f
                  : kind == 2 ? std::ldexp(head[c], -20)
                  : kind == 3 ? 100.0f + 0.01f * head[c]
                  : kind == 4 ? 1e5f * head[c]
                              : head[c];
      }
    }
  }
  return values;
}

TEST(PagedAppend, WritesRoundedValuesToTheirSlotsAndNothingElse) {
  testing::for_each_target([](const std::string& target) {
    for (const auto dtype : {mx::float32, mx::float16, mx::bfloat16}) {
      const mx::array start = mx::astype(normal_array({4, 16, 3, 10}, 1), dtype);
      // Normal, subnormal, overflowing and special halves.
      std::vector<float> numbers = normal_floats(5 * 3 * 10, 2);
      for (size_t i = 0; i < numbers.size(); i += 3) {
        numbers[i] = std::ldexp(numbers[i], -static_cast<int>(i / 5));
      }
      numbers[1] = 65519.0f;
      numbers[2] = 65520.0f;
      numbers[4] = -std::numeric_limits<float>::infinity();
      numbers[5] = 1.0f + std::ldexp(1.0f, -11);
      const mx::array k = array_of(numbers, {5, 3, 10});
      const mx::array v = normal_array({5, 3, 10}, 3);
      const mx::array slots = int_array({17, 0, 63, 16, 40}, {5});
      const KvPages expected =
          reference::paged_append({start, start + mx::array(0.0f, dtype)}, k, v, slots);
      const std::vector<float> k_expected = values_of(mx::astype(expected.k, mx::float32));
      const std::vector<float> v_expected = values_of(mx::astype(expected.v, mx::float32));
      const KvPages pages{mx::contiguous(start + mx::array(0.0f, dtype)),
                          mx::contiguous(start + mx::array(0.0f, dtype))};
      const KvPages next = paged_append(pages, k, v, slots);
      EXPECT_TRUE(same_bits(values_of(mx::astype(next.k, mx::float32)), k_expected)) << target;
      EXPECT_TRUE(same_bits(values_of(mx::astype(next.v, mx::float32)), v_expected)) << target;
    }
  });
}

TEST(PagedAppend, KeepsThePoolsBuffersWhileAStepIsInFlightAndOthersHoldThem) {
  KvPages pages{mx::zeros({64, 16, 2, 64}, mx::float16), mx::zeros({64, 16, 2, 64}, mx::float16)};
  mx::eval(pages.k, pages.v);
  const void* k_buffer = pages.k.data<char>();
  const void* v_buffer = pages.v.data<char>();
  std::vector<KvPages> held{pages};
  for (int step = 0; step < 20; ++step) {
    const mx::array k = normal_array({1, 2, 64}, step);
    pages = paged_append(pages, k, k, int_array({16 + step}, {1}));
    mx::async_eval({pages.k, pages.v});
    held.push_back(pages);
  }
  mx::eval(pages.k, pages.v);
  EXPECT_EQ(pages.k.data<char>(), k_buffer);
  EXPECT_EQ(pages.v.data<char>(), v_buffer);
  const auto last = values_of<mx::float16_t>(mx::astype(normal_array({1, 2, 64}, 19), mx::float16));
  const auto* stored = pages.k.data<mx::float16_t>() + (16 + 19) * 2 * 64;
  EXPECT_TRUE(same_bits(std::vector<mx::float16_t>(stored, stored + 128), last));
}

TEST(CopyPages, CopiesBytesInThePoolsOwnBuffersAndLikeItsTwin) {
  const auto half = [](uint32_t seed) {
    return mx::contiguous(mx::astype(normal_array({6, 4, 2, 8}, seed), mx::float16));
  };
  const KvPages pages{half(1), half(2)};
  mx::eval(pages.k, pages.v);
  const void* buffer = pages.k.data<char>();
  const mx::array from = int_array({1, 5, 9, 2}, {4});
  const mx::array to = int_array({3, 4, 2, -1}, {4});
  const KvPages expected = reference::copy_pages({half(1), half(2)}, from, to);
  mx::eval(expected.k, expected.v);
  const KvPages next = copy_pages(pages, from, to);
  const auto bits = [](const mx::array& a) { return values_of(mx::astype(a, mx::float32)); };
  EXPECT_TRUE(same_bits(bits(next.k), bits(expected.k)));
  EXPECT_TRUE(same_bits(bits(next.v), bits(expected.v)));
  EXPECT_EQ(next.k.data<char>(), buffer);
  const mx::array copied = mx::slice(next.k, {3, 0, 0, 0}, {4, 4, 2, 8});
  EXPECT_TRUE(same_bits(bits(copied), bits(mx::slice(half(1), {1, 0, 0, 0}, {2, 4, 2, 8}))));
  EXPECT_THROW(copy_pages(pages, from, int_array({1}, {1})), std::invalid_argument);
}

TEST(CopyPages, OfCodedPagesAreTheSameBytes) {
  const CodedHeads coded = coding(KvElement::int4, 32, 32);
  KvPages pages = coded_pool(coded, 4, 2, 1);
  const mx::array values = normal_array({2, 1, 32}, 5);
  pages = paged_append(pages, values, values, int_array({2, 3}, {2}));
  const KvPages next = copy_pages(pages, int_array({1}, {1}), int_array({3}, {1}));
  const std::vector<uint8_t> bytes = values_of<uint8_t>(next.k);
  const size_t page = bytes.size() / 4;
  EXPECT_TRUE(std::equal(bytes.begin() + page, bytes.begin() + 2 * page, bytes.begin() + 3 * page));
  EXPECT_NE(std::count(bytes.begin() + 3 * page, bytes.end(), 0), static_cast<int64_t>(page));
}

TEST(PagedAppend, SkipsSlotsOutsideThePool) {
  const KvPages pages{mx::contiguous(mx::zeros({2, 16, 1, 8})),
                      mx::contiguous(mx::zeros({2, 16, 1, 8}))};
  const KvPages next =
      paged_append(pages, mx::ones({3, 1, 8}), mx::ones({3, 1, 8}), int_array({-1, 32, 31}, {3}));
  const std::vector<float> k = values_of(next.k);
  EXPECT_EQ(std::count(k.begin(), k.end(), 1.0f), 8);
  EXPECT_EQ(k[31 * 8], 1.0f);
}

TEST(PagedAppend, CodesHeadsToTheSameBytesAsItsTwinOnEveryInstructionSet) {
  testing::for_each_target([](const std::string& target) {
    for (const auto element : {KvElement::int8, KvElement::int4}) {
      for (const int dim : {8, 24, 40, 64, 72, 80, 96, 128, 256}) {
        for (const int group_size : {32, 64, 128}) {
          const CodedHeads coded = coding(element, dim, group_size);
          const KvPages pages = coded_pool(coded, 3, 4, 3);
          const mx::array k = array_of(mixed_floats(5, 3, dim, 1), {5, 3, dim});
          const mx::array v = array_of(mixed_floats(5, 3, dim, 2), {5, 3, dim});
          const mx::array slots = int_array({7, 4, 11, 0, 5}, {5});
          const KvPages plain = reference::paged_append(pages, k, v, slots);
          const auto k_bytes = values_of<uint8_t>(plain.k);
          const auto v_bytes = values_of<uint8_t>(plain.v);
          const uint64_t before = variant_runs("kv_pages/append_coded");
          const KvPages own = paged_append(pages, k, v, slots);
          EXPECT_TRUE(same_bits(values_of<uint8_t>(own.k), k_bytes))
              << target << ", " << dim << " in groups of " << group_size;
          EXPECT_TRUE(same_bits(values_of<uint8_t>(own.v), v_bytes));
          EXPECT_EQ(variant_runs("kv_pages/append_coded"), before + 2);
        }
      }
    }
  });
}

TEST(PagedAppend, CodesNumbersWithinHalfAStepOfTheirGroup) {
  for (const auto element : {KvElement::int8, KvElement::int4}) {
    const float levels = element == KvElement::int8 ? 255.0f : 15.0f;
    for (const int group_size : {32, 64, 128}) {
      const int dim = 80;
      const CodedHeads coded = coding(element, dim, group_size);
      std::vector<float> values = mixed_floats(20, 2, dim, 3);
      for (float& value : values) {
        value = std::clamp(value, -60000.0f, 60000.0f);
      }
      const mx::array rows = reference::encode_heads(array_of(values, {20, 2, dim}), coded);
      EXPECT_EQ(rows.shape(-1), coded.format.head_bytes(dim));
      const std::vector<float> back = values_of(reference::decode_heads(rows, coded));
      for (int head = 0; head < 40; ++head) {
        for (int c = 0; c < dim; c += group_size) {
          const auto first = values.begin() + head * dim + c;
          const auto last = first + std::min(group_size, dim - c);
          const auto [low, high] = std::minmax_element(first, last);
          // Scale and bias are halves: the range grows by the last places of its ends.
          const float largest = std::max(std::abs(*low), std::abs(*high));
          const float step =
              (*high - *low + 0x1p-9f * largest) / levels * (1.0f + 0x1p-9f) + 0x1p-23f;
          for (auto value = first; value != last; ++value) {
            const float read = back[value - values.begin()];
            EXPECT_LE(std::abs(read - *value), 0.51f * step) << *value;
          }
        }
      }
    }
  }
}

TEST(PagedAppend, ReadsAGroupWithANanOrAnInfinityBackAsNanAndNoOther) {
  const CodedHeads coded = coding(KvElement::int8, 64, 32);
  std::vector<float> values = normal_floats(4 * 64, 4);
  values[0 * 64 + 5] = std::nanf("");
  values[1 * 64 + 63] = std::numeric_limits<float>::infinity();
  values[2 * 64 + 40] = -std::numeric_limits<float>::infinity();
  const KvPages pages = coded_pool(coded, 1, 4, 1);
  const mx::array k = array_of(values, {4, 1, 64});
  const KvPages next = paged_append(pages, k, k, int_array({0, 1, 2, 3}, {4}));
  const std::vector<float> keys = values_of(reference::decode_heads(next.k, coded));
  const std::vector<float> back = values_of(reference::decode_heads(next.v, coded));
  for (int i = 0; i < 4 * 64; ++i) {
    const int group = i / 32;
    EXPECT_EQ(std::isnan(back[i]), group == 0 || group == 3 || group == 5) << i;
    // A rotation mixes the columns of a key.
    EXPECT_EQ(std::isnan(keys[i]), i / 64 != 3) << i;
  }
}

TEST(PagedAppend, RotatesKeysAndQueriesSoThatDotProductsStay) {
  for (const int dim : {8, 24, 40, 64, 72, 80, 96, 128, 192, 256}) {
    const mx::array q = normal_array({5, 1, dim}, 7);
    const mx::array k = normal_array({1, 9, dim}, 8);
    const mx::array turned_q = reference::rotate_heads(q, Rotated::query);
    const mx::array turned_k = reference::rotate_heads(k, Rotated::key);
    const std::vector<float> products = values_of(mx::sum(q * k, -1));
    EXPECT_LT(relative_error(values_of(mx::sum(turned_q * turned_k, -1)), products), 1e-6) << dim;
    // A column that stands out is shared out: the spread of a key is what it was on average.
    std::vector<float> spike(dim, 0.0f);
    spike[dim / 3] = 1.0f;
    const mx::array flat = reference::rotate_heads(array_of(spike, {1, 1, dim}), Rotated::key);
    EXPECT_LE(mx::max(mx::abs(flat)).item<float>(), 0.25f) << dim;
  }
}

TEST(PagedAppend, CutsCodedNumbersToWhatHalvesHold) {
  const CodedHeads coded = coding(KvElement::int8, 32, 32);
  std::vector<float> values(32, 0.0f);
  values[3] = 3e38f;
  values[4] = -3e38f;
  const mx::array k = array_of(values, {1, 1, 32});
  const std::vector<float> back =
      values_of(reference::decode_heads(reference::encode_heads(k, coded), coded));
  EXPECT_NEAR(back[3], 65504.0f, 65.0f);
  EXPECT_NEAR(back[4], -65504.0f, 65.0f);
  EXPECT_NEAR(back[5], 0.0f, 260.0f);
}

TEST(PagedAppend, CodesATokenTheSameWayAloneAndInACrowdOnAnyNumberOfThreads) {
  const CodedHeads coded = coding(KvElement::int4, 64, 64);
  const std::vector<float> values = normal_floats(300 * 3 * 64, 5);
  std::vector<int32_t> slots(300);
  for (int i = 0; i < 300; ++i) {
    slots[i] = i;
  }
  const mx::array all = array_of(values, {300, 3, 64});
  const auto together = [&] {
    const KvPages pages = coded_pool(coded, 20, 16, 3);
    return values_of<uint8_t>(paged_append(pages, all, all, int_array(slots, {300})).k);
  };
  const std::vector<uint8_t> expected = together();
  testing::for_each_thread_count(
      [&](int threads) { EXPECT_TRUE(same_bits(together(), expected)) << threads; });
  KvPages pages = coded_pool(coded, 20, 16, 3);
  for (int i = 0; i < 300; ++i) {
    const mx::array one = mx::slice(all, mx::Shape{i, 0, 0}, mx::Shape{i + 1, 3, 64});
    pages = paged_append(pages, one, one, int_array({i}, {1}));
  }
  EXPECT_TRUE(same_bits(values_of<uint8_t>(pages.k), expected));
}

TEST(PagedAppend, KeepsACodedPoolsBuffersAndPeakMemoryOverALongDecode) {
  const CodedHeads coded = coding(KvElement::int8, 64, 64);
  for (const bool integers : {false, true}) {
    KvPages pages = integers ? coded_pool(coded, 512, 16, 4)
                             : KvPages{mx::contiguous(mx::zeros({512, 16, 4, 64}, mx::float16)),
                                       mx::contiguous(mx::zeros({512, 16, 4, 64}, mx::float16))};
    mx::eval(pages.k, pages.v);
    mx::array one = normal_array({1, 4, 64}, 6);
    one.eval();
    const void* k_buffer = pages.k.data<char>();
    const void* v_buffer = pages.v.data<char>();
    const KvPages held = pages;
    const size_t before = mx::get_active_memory();
    mx::reset_peak_memory();
    for (int step = 0; step < 500; ++step) {
      // Two steps in flight: their inputs are held while the next append runs.
      pages = paged_append(pages, one, one, int_array({16 + step}, {1}));
      mx::async_eval({pages.k, pages.v});
    }
    mx::eval(pages.k, pages.v);
    EXPECT_EQ(pages.k.data<char>(), k_buffer);
    EXPECT_EQ(pages.v.data<char>(), v_buffer);
    EXPECT_EQ(held.k.data<char>(), k_buffer);
    // A copy of one half would be 4 MiB (f16) or 2.1 MiB.
    EXPECT_LT(mx::get_peak_memory() - before, size_t{1} << 20) << integers;
  }
}

TEST(PagedAppend, RefusesPoolsOfIntegersThatDoNotMatchTheirCoding) {
  const CodedHeads coded = coding(KvElement::int8, 64, 64);
  const mx::array one = mx::zeros({1, 1, 64});
  const mx::array slot = int_array({0}, {1});
  const auto append = [&](const KvPages& pages) { return paged_append(pages, one, one, slot); };
  EXPECT_NO_THROW(append(coded_pool(coded, 1, 4, 1)));
  const mx::array narrow = mx::zeros({1, 4, 1, 67}, mx::uint8);
  EXPECT_THROW(append({narrow, narrow, coded}), std::invalid_argument);
  const mx::array uncoded = mx::zeros({1, 4, 1, 64}, mx::uint8);
  EXPECT_THROW(append({uncoded, uncoded}), std::invalid_argument);
  const mx::array wide = mx::zeros({1, 4, 1, 68}, mx::float16);
  EXPECT_THROW(append({wide, wide, coded}), std::invalid_argument);
  EXPECT_THROW(append(coded_pool(coding(KvElement::int8, 64, 48), 1, 4, 1)), std::invalid_argument);
  EXPECT_THROW(append(coded_pool(coding(KvElement::float16, 64, 64), 1, 4, 1)),
               std::invalid_argument);
}

}  // namespace
}  // namespace pome::kernels
