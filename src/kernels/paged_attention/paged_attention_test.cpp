#include "kernels/paged_attention/paged_attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/backend.h"
#include "kernels/counters.h"
#include "kernels/kernel_testing.h"

namespace pome::kernels {
namespace {

using testing::array_of;
using testing::int_array;
using testing::normal_array;
using testing::normal_floats;
using testing::relative_error;
using testing::same_bits;
using testing::values_of;

constexpr int kPageTokens = 16;

// A ragged batch over its own pool: row r has counts[r] new tokens of lengths[r] cached ones, its
// pages are scattered.
struct Batch {
  int heads;
  int kv_heads;
  int dim;
  std::vector<int> counts;
  std::vector<int> lengths;
  int pages = 1;
  int table_pages = 1;
  std::vector<int32_t> table;
  std::vector<int32_t> offsets{0};
  std::vector<float> q;
  std::vector<float> k;  // [pages · page_tokens, kv_heads, dim]
  std::vector<float> v;

  Batch(int h, int hkv, int d, std::vector<int> c, std::vector<int> l)
      : heads(h), kv_heads(hkv), dim(d), counts(std::move(c)), lengths(std::move(l)) {
    for (const int length : lengths) {
      table_pages = std::max(table_pages, (length + kPageTokens - 1) / kPageTokens);
    }
    std::vector<int32_t> free;
    for (size_t i = 0; i < lengths.size() * table_pages; ++i) {
      free.push_back(static_cast<int32_t>(i + 1));
    }
    pages = static_cast<int>(free.size()) + 1;
    std::shuffle(free.begin(), free.end(), std::mt19937(4));
    table = free;
    for (const int count : counts) {
      offsets.push_back(offsets.back() + count);
    }
    q = normal_floats(static_cast<size_t>(offsets.back()) * heads * dim, 1);
    k = normal_floats(static_cast<size_t>(pages) * kPageTokens * kv_heads * dim, 2);
    v = normal_floats(k.size(), 3);
  }

  KvPages pool(mx::Dtype dtype) const {
    const mx::Shape shape{pages, kPageTokens, kv_heads, dim};
    return {mx::astype(array_of(k, shape), dtype), mx::astype(array_of(v, shape), dtype)};
  }
  mx::array queries() const { return array_of(q, {offsets.back(), heads, dim}); }
  PagedRows rows() const {
    const auto count = static_cast<int>(counts.size());
    return {int_array(table, {count, table_pages}), int_array(offsets, {count + 1}),
            int_array(lengths, {count}), *std::max_element(counts.begin(), counts.end())};
  }
  // Row r alone, over the same pool.
  Batch row(size_t r) const {
    Batch one = *this;
    one.counts = {counts[r]};
    one.lengths = {lengths[r]};
    one.table.assign(table.begin() + r * table_pages, table.begin() + (r + 1) * table_pages);
    one.offsets = {0, counts[r]};
    one.q.assign(q.begin() + offsets[r] * heads * dim, q.begin() + offsets[r + 1] * heads * dim);
    return one;
  }
  // The last `count` tokens of a one-row batch.
  Batch tail(int count) const {
    Batch last = *this;
    last.counts = {count};
    last.offsets = {0, count};
    last.q.assign(q.end() - static_cast<std::ptrdiff_t>(count) * heads * dim, q.end());
    return last;
  }

  std::vector<float> expected(const KvPages& pool, const AttentionOptions& o,
                              const std::vector<float>& sinks) const {
    const std::vector<float> keys = values_of(mx::astype(pool.k, mx::float32));
    const std::vector<float> values = values_of(mx::astype(pool.v, mx::float32));
    std::vector<float> out;
    for (size_t r = 0; r < counts.size(); ++r) {
      for (int i = 0; i < counts[r]; ++i) {
        for (int h = 0; h < heads; ++h) {
          const float* query = q.data() + ((offsets[r] + i) * heads + h) * dim;
          const std::vector<float> one =
              attend(query, r, lengths[r] - counts[r] + i, h, keys, values, o, sinks);
          out.insert(out.end(), one.begin(), one.end());
        }
      }
    }
    return out;
  }

  std::vector<float> attend(const float* query, size_t r, int position, int h,
                            const std::vector<float>& keys, const std::vector<float>& values,
                            const AttentionOptions& o, const std::vector<float>& sinks) const {
    const auto at = [&](int token) {
      const int slot =
          table[r * table_pages + token / kPageTokens] * kPageTokens + token % kPageTokens;
      return (slot * kv_heads + h / (heads / kv_heads)) * dim;
    };
    const int first = o.window > 0 ? std::max(0, position - o.window + 1) : 0;
    std::vector<double> scores;
    for (int token = first; token <= position; ++token) {
      double score = 0.0;
      for (int c = 0; c < dim; ++c) {
        score += double{query[c]} * double{keys[at(token) + c]};
      }
      score *= double{o.scale};
      scores.push_back(o.softcap > 0 ? o.softcap * std::tanh(score / o.softcap) : score);
    }
    double total = sinks.empty() ? 0.0 : std::exp(double{sinks[h]});
    std::vector<double> sum(dim, 0.0);
    for (size_t j = 0; j < scores.size(); ++j) {
      total += std::exp(scores[j]);
      for (int c = 0; c < dim; ++c) {
        sum[c] += std::exp(scores[j]) * double{values[at(first + static_cast<int>(j)) + c]};
      }
    }
    std::vector<float> out(dim);
    for (int c = 0; c < dim; ++c) {
      out[c] = total > 0.0 ? static_cast<float>(sum[c] / total) : 0.0f;
    }
    return out;
  }
};

std::vector<float> run(const Batch& b, mx::Dtype dtype, const AttentionOptions& options) {
  return values_of(paged_attention(b.queries(), b.pool(dtype), b.rows(), options));
}

TEST(PagedAttention, AgreesWithALoopForEveryHeadSizeAndDtypeOnEveryInstructionSet) {
  testing::for_each_target([](const std::string& target) {
    for (const int dim : {8, 40, 64, 72, 80, 96, 128, 256}) {
      for (const auto dtype : {mx::float32, mx::float16, mx::bfloat16}) {
        const Batch b(6, 2, dim, {5, 1, 17}, {70, 33, 17});
        const AttentionOptions options{.scale = 1.0f / std::sqrt(static_cast<float>(dim))};
        EXPECT_LT(relative_error(run(b, dtype, options), b.expected(b.pool(dtype), options, {})),
                  2e-6)
            << target << ", head size " << dim;
      }
    }
  });
}

TEST(PagedAttention, AgreesWithItsTwinOnRaggedBatches) {
  const Batch b(9, 3, 64, {1, 40, 1, 3, 1}, {700, 41, 1, 300, 64});
  for (const int window : {0, 20, 300}) {
    AttentionOptions options{.scale = 0.125f, .window = window};
    EXPECT_LT(relative_error(run(b, mx::float16, options),
                             values_of(reference::paged_attention(b.queries(), b.pool(mx::float16),
                                                                  b.rows(), options))),
              2e-6)
        << window;
  }
}

TEST(PagedAttention, HonoursWindowSoftcapAndSinks) {
  const Batch b(4, 1, 64, {30, 1}, {90, 600});
  const std::vector<float> sinks{0.5f, -1.0f, 3.0f, 0.0f};
  for (const int window : {1, 7, 64, 100}) {
    for (const float softcap : {0.0f, 2.0f}) {
      for (const bool with_sinks : {false, true}) {
        AttentionOptions options{.scale = 0.2f, .window = window, .softcap = softcap};
        if (with_sinks) {
          options.sinks = array_of(sinks, {4});
        }
        const std::vector<float> none;
        const std::vector<float> expected =
            b.expected(b.pool(mx::float32), options, with_sinks ? sinks : none);
        EXPECT_LT(relative_error(run(b, mx::float32, options), expected), 3e-6);
        EXPECT_LT(relative_error(values_of(reference::paged_attention(
                                     b.queries(), b.pool(mx::float32), b.rows(), options)),
                                 expected),
                  3e-6);
      }
    }
  }
}

TEST(PagedAttention, GivesARowTheSameBitsAloneAndInACrowd) {
  const Batch b(9, 3, 64, {1, 100, 1, 3, 1, 5}, {700, 129, 1, 300, 64, 513});
  const AttentionOptions options{.scale = 0.125f};
  const std::vector<float> together = run(b, mx::float16, options);
  for (size_t r = 0; r < b.counts.size(); ++r) {
    const std::vector<float> alone = run(b.row(r), mx::float16, options);
    const auto begin = together.begin() + b.offsets[r] * 9 * 64;
    EXPECT_TRUE(same_bits(alone, std::vector<float>(begin, begin + alone.size()))) << "row " << r;
  }
}

TEST(PagedAttention, GivesTheSameBitsForPrefillInOnePieceInChunksAndTokenByToken) {
  for (const int window : {0, 50}) {
    const Batch whole(6, 2, 64, {600}, {600});
    const AttentionOptions options{.scale = 0.125f, .window = window};
    const uint64_t wholes = variant_runs("paged_attention/whole_rows");
    const uint64_t splits = variant_runs("paged_attention/split_rows");
    const std::vector<float> at_once = run(whole, mx::float16, options);
    for (const int count : {1, 2, 4, 5, 33, 599}) {
      const std::vector<float> last = run(whole.tail(count), mx::float16, options);
      EXPECT_TRUE(same_bits(last, std::vector<float>(at_once.end() - last.size(), at_once.end())))
          << count << " tokens, window " << window;
    }
    EXPECT_GT(variant_runs("paged_attention/whole_rows"), wholes);
    EXPECT_EQ(variant_runs("paged_attention/split_rows"), splits + (window == 0 ? 3 : 0));
  }
}

TEST(PagedAttention, GivesTheSameBitsForEveryNumberOfThreads) {
  const Batch b(9, 3, 64, {1, 60, 1}, {1500, 61, 300});
  const AttentionOptions options{.scale = 0.125f};
  const std::vector<float> expected = run(b, mx::float16, options);
  testing::for_each_thread_count([&](int threads) {
    EXPECT_TRUE(same_bits(run(b, mx::float16, options), expected)) << threads << " threads";
  });
}

TEST(PagedAttention, NeverReadsPastARowsLength) {
  Batch b(2, 1, 16, {1, 2}, {5, 18});
  const std::vector<float> clean = run(b, mx::float32, {});
  for (int slot = 0; slot < b.pages * kPageTokens; ++slot) {
    const int page = slot / kPageTokens;
    const auto owner = std::find(b.table.begin(), b.table.end(), page) - b.table.begin();
    const int row = static_cast<int>(owner) / b.table_pages;
    const int token = static_cast<int>(owner) % b.table_pages * kPageTokens + slot % kPageTokens;
    if (page == 0 || token >= b.lengths[row]) {
      std::fill_n(b.k.begin() + slot * 16, 16, std::nanf(""));
      std::fill_n(b.v.begin() + slot * 16, 16, std::nanf(""));
    }
  }
  EXPECT_TRUE(same_bits(run(b, mx::float32, {}), clean));
}

TEST(PagedAttention, GivesZerosWhereNothingIsCached) {
  const Batch b(2, 1, 16, {2}, {0});
  EXPECT_EQ(run(b, mx::float32, {}), std::vector<float>(2 * 2 * 16, 0.0f));
}

TEST(PagedAttention, RefusesShapesThatDoNotFit) {
  const Batch b(3, 2, 16, {1}, {4});
  EXPECT_THROW(run(b, mx::float32, {}), std::invalid_argument);
  const Batch wide(2, 1, 264, {1}, {4});
  EXPECT_THROW(run(wide, mx::float32, {}), std::invalid_argument);
  const Batch odd(2, 1, 12, {1}, {4});
  EXPECT_THROW(run(odd, mx::float32, {}), std::invalid_argument);
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

TEST(PagedAppend, SkipsSlotsOutsideThePool) {
  const KvPages pages{mx::contiguous(mx::zeros({2, 16, 1, 8})),
                      mx::contiguous(mx::zeros({2, 16, 1, 8}))};
  const KvPages next =
      paged_append(pages, mx::ones({3, 1, 8}), mx::ones({3, 1, 8}), int_array({-1, 32, 31}, {3}));
  const std::vector<float> k = values_of(next.k);
  EXPECT_EQ(std::count(k.begin(), k.end(), 1.0f), 8);
  EXPECT_EQ(k[31 * 8], 1.0f);
}

}  // namespace
}  // namespace pome::kernels
