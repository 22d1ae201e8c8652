#include "kernels/paged_attention/paged_attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/backend.h"
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

  KvPages pool(KvElement element, int32_t group_size = 64) const {
    const mx::Shape shape{pages, kPageTokens, kv_heads, dim};
    const mx::array keys = array_of(k, shape);
    const mx::array values = array_of(v, shape);
    const kvcache::KvFormat format{element, group_size};
    if (format.coded()) {
      const CodedHeads coded{dim, format};
      const mx::array rotated = reference::rotate_heads(keys, Rotated::key);
      return {mx::contiguous(reference::encode_heads(rotated, coded)),
              mx::contiguous(reference::encode_heads(values, coded)), coded};
    }
    const mx::Dtype dtype = element == KvElement::float32
                                ? mx::float32
                                : (element == KvElement::float16 ? mx::float16 : mx::bfloat16);
    return {mx::astype(keys, dtype), mx::astype(values, dtype)};
  }
  static std::vector<float> floats(const mx::array& half, const std::optional<CodedHeads>& coded) {
    return values_of(coded ? reference::decode_heads(half, *coded) : mx::astype(half, mx::float32));
  }
  mx::array queries() const { return array_of(q, {offsets.back(), heads, dim}); }
  PagedRows rows() const {
    const auto count = static_cast<int>(counts.size());
    return {int_array(table, {count, table_pages}), int_array(offsets, {count + 1}),
            int_array(lengths, {count}), counts};
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
    const std::vector<float> keys = floats(pool.k, pool.coded);
    const std::vector<float> turned =
        pool.coded ? values_of(reference::rotate_heads(queries(), Rotated::query)) : q;
    const std::vector<float> values = floats(pool.v, pool.coded);
    std::vector<float> out;
    for (size_t r = 0; r < counts.size(); ++r) {
      for (int i = 0; i < counts[r]; ++i) {
        for (int h = 0; h < heads; ++h) {
          const float* query = turned.data() + ((offsets[r] + i) * heads + h) * dim;
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

std::vector<float> run(const Batch& b, KvElement element, const AttentionOptions& options,
                       int32_t group_size = 64) {
  return values_of(paged_attention(b.queries(), b.pool(element, group_size), b.rows(), options));
}

TEST(PagedAttention, AgreesWithALoopForEveryHeadSizeAndDtypeOnEveryInstructionSet) {
  testing::for_each_target([](const std::string& target) {
    for (const int dim : {8, 40, 64, 72, 80, 96, 128, 256}) {
      for (const auto element : {KvElement::float32, KvElement::float16, KvElement::bfloat16,
                                 KvElement::int8, KvElement::int4}) {
        const Batch b(6, 2, dim, {5, 1, 17}, {70, 33, 17});
        const AttentionOptions options{.scale = 1.0f / std::sqrt(static_cast<float>(dim))};
        EXPECT_LT(
            relative_error(run(b, element, options), b.expected(b.pool(element), options, {})),
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
    EXPECT_LT(relative_error(run(b, KvElement::float16, options),
                             values_of(reference::paged_attention(
                                 b.queries(), b.pool(KvElement::float16), b.rows(), options))),
              2e-6)
        << window;
  }
}

// A GPU without an attention of our own runs the twin, and its memory cannot run out.
TEST(PagedAttention, KeepsItsTwinWithinTheBytesThatItSays) {
  const std::vector<float> sinks{0.5f, -1.0f, 3.0f, 0.0f, 1.0f, 2.0f, 0.1f, -2.0f};
  for (const Batch& b : {Batch(8, 4, 64, {1, 1, 1, 1, 1, 70}, {9000, 8000, 9000, 9000, 1, 9000}),
                         Batch(8, 4, 64, {1, 3}, {40000, 100})}) {
    AttentionOptions options{.scale = 0.125f};
    options.sinks = array_of(sinks, {8});
    const KvPages pool = b.pool(KvElement::float16);
    const mx::array q = b.queries();
    const PagedRows rows = b.rows();
    mx::eval(pool.k, pool.v, q, rows.page_table, rows.row_offsets, rows.kv_lengths);
    mx::clear_cache();
    mx::reset_peak_memory();
    const size_t before = mx::get_active_memory();
    const std::vector<float> twin = values_of(reference::paged_attention(q, pool, rows, options));
    const auto rows_count = static_cast<int64_t>(b.counts.size());
    EXPECT_LE(static_cast<int64_t>(mx::get_peak_memory() - before),
              reference::attention_bytes_max(rows_count, b.table_pages * kPageTokens, 4, 64));
    EXPECT_LT(relative_error(run(b, KvElement::float16, options), twin), 2e-6);
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
            b.expected(b.pool(KvElement::float32), options, with_sinks ? sinks : none);
        EXPECT_LT(relative_error(run(b, KvElement::float32, options), expected), 3e-6);
        EXPECT_LT(relative_error(values_of(reference::paged_attention(
                                     b.queries(), b.pool(KvElement::float32), b.rows(), options)),
                                 expected),
                  3e-6);
      }
    }
  }
}

constexpr KvElement kEveryElement[] = {KvElement::float32, KvElement::float16, KvElement::bfloat16,
                                       KvElement::int8, KvElement::int4};

TEST(PagedAttention, AgreesWithItsTwinForEveryCombinationOfFeatures) {
  // A decode row over two splits, prefill of two sizes and a short decode row in one batch. How
  // numbers are stored takes turns.
  uint32_t turn = 0;
  for (const int dim : {64, 80, 96, 128, 192, 256}) {
    for (const int group : {1, 3, 8}) {
      const Batch b(group, 1, dim, {1, 19, 7, 1}, {300, 20, 270, 9});
      for (const int features : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const KvElement element = kEveryElement[turn++ % std::size(kEveryElement)];
        const KvPages pool = b.pool(element, turn % 2 == 0 ? 32 : 64);
        AttentionOptions options{.scale = 0.1f, .window = (features & 1) != 0 ? 100 : 0};
        options.softcap = (features & 2) != 0 ? 3.0f : 0.0f;
        if ((features & 4) != 0) {
          options.sinks = normal_array({group}, turn);
        }
        const auto own = paged_attention(b.queries(), pool, b.rows(), options);
        const auto plain = reference::paged_attention(b.queries(), pool, b.rows(), options);
        EXPECT_LT(relative_error(values_of(own), values_of(plain)), 3e-6)
            << "heads of " << dim << ", " << group << " a key head, element "
            << static_cast<int>(element) << ", window " << options.window << ", soft cap "
            << options.softcap << (options.sinks ? ", sinks" : "");
      }
    }
  }
}

TEST(PagedAttention, GivesARowTheSameBitsAloneAndInACrowd) {
  const Batch b(9, 3, 80, {1, 100, 1, 3, 1, 5}, {700, 129, 1, 300, 64, 513});
  const AttentionOptions options{.scale = 0.125f};
  for (const KvElement element : kEveryElement) {
    const std::vector<float> together = run(b, element, options, 32);
    for (size_t r = 0; r < b.counts.size(); ++r) {
      const std::vector<float> alone = run(b.row(r), element, options, 32);
      const auto begin = together.begin() + b.offsets[r] * 9 * 80;
      EXPECT_TRUE(same_bits(alone, std::vector<float>(begin, begin + alone.size())))
          << "row " << r << ", element " << static_cast<int>(element);
    }
  }
}

// Few queries read the pages as they lie, many stage a block: the sizes straddle both, on every
// instruction set.
TEST(PagedAttention, GivesTheSameBitsForPrefillInOnePieceInChunksAndTokenByToken) {
  const auto check = [](const Batch& whole, KvElement element, const AttentionOptions& options,
                        const std::string& what) {
    const std::vector<float> at_once = run(whole, element, options);
    for (const int count : {1, 2, 5, 32, 33, whole.counts[0] - 1}) {
      const std::vector<float> last = run(whole.tail(count), element, options);
      EXPECT_TRUE(same_bits(last, std::vector<float>(at_once.end() - last.size(), at_once.end())))
          << count << " tokens, element " << static_cast<int>(element) << ", " << what;
    }
  };
  for (const int window : {0, 50}) {
    const AttentionOptions options{.scale = 0.125f, .window = window};
    const uint64_t wholes = variant_runs("paged_attention/whole_rows");
    const uint64_t splits = variant_runs("paged_attention/split_rows");
    for (const KvElement element : kEveryElement) {
      check(Batch(6, 2, 64, {600}, {600}), element, options, "heads of 64");
    }
    EXPECT_GT(variant_runs("paged_attention/whole_rows"), wholes);
    EXPECT_EQ(variant_runs("paged_attention/split_rows"), splits + (window == 0 ? 20 : 0));
  }
  testing::for_each_target([&](const std::string& target) {
    for (const int dim : {8, 72, 80, 128, 256}) {
      for (const KvElement element : {KvElement::float16, KvElement::int8, KvElement::int4}) {
        check(Batch(6, 2, dim, {90}, {290}), element, {.scale = 0.1f, .softcap = 4.0f}, target);
      }
    }
  });
}

TEST(PagedAttention, GivesTheSameBitsForEveryNumberOfThreads) {
  const Batch b(9, 3, 64, {1, 60, 1}, {1500, 61, 300});
  const AttentionOptions options{.scale = 0.125f};
  const std::vector<float> expected = run(b, KvElement::float16, options);
  testing::for_each_thread_count([&](int threads) {
    EXPECT_TRUE(same_bits(run(b, KvElement::float16, options), expected)) << threads << " threads";
  });
}

TEST(PagedAttention, ReadsPagesOfAnySize) {
  for (const int page_tokens : {1, 2, 8, 64, 128}) {
    const Batch b(6, 2, 64, {20, 1}, {150, 130});
    // The same tokens in pages of another size.
    const int count = (150 + page_tokens - 1) / page_tokens;
    std::vector<int32_t> table;
    std::vector<float> k(static_cast<size_t>(2 * count + 1) * page_tokens * 2 * 64, 0.0f);
    std::vector<float> v = k;
    for (int r = 0; r < 2; ++r) {
      for (int block = 0; block < count; ++block) {
        table.push_back(1 + block * 2 + r);
      }
      for (int token = 0; token < b.lengths[r]; ++token) {
        const int from =
            b.table[r * b.table_pages + token / kPageTokens] * kPageTokens + token % kPageTokens;
        const int to = table[r * count + token / page_tokens] * page_tokens + token % page_tokens;
        std::copy_n(b.k.begin() + from * 128, 128, k.begin() + to * 128);
        std::copy_n(b.v.begin() + from * 128, 128, v.begin() + to * 128);
      }
    }
    const mx::Shape shape{2 * count + 1, page_tokens, 2, 64};
    PagedRows rows = b.rows();
    rows.page_table = int_array(table, {2, count});
    const std::vector<float> out =
        values_of(paged_attention(b.queries(), {array_of(k, shape), array_of(v, shape)}, rows, {}));
    EXPECT_TRUE(same_bits(out, run(b, KvElement::float32, {}))) << page_tokens;
  }
}

// What others left in a page, or write there meanwhile, must not matter: in the twin either.
TEST(PagedAttention, UsesNothingPastARowsLengthOrBeforeItsWindow) {
  for (const int window : {0, 8}) {
    const AttentionOptions options{.window = window};
    Batch b(2, 1, 16, {1, 2}, {5, 18});
    const auto both = [&] {
      const mx::array twin =
          reference::paged_attention(b.queries(), b.pool(KvElement::float32), b.rows(), options);
      return std::pair(run(b, KvElement::float32, options), values_of(twin));
    };
    const auto clean = both();
    for (int slot = 0; slot < b.pages * kPageTokens; ++slot) {
      const int page = slot / kPageTokens;
      const auto owner = std::find(b.table.begin(), b.table.end(), page) - b.table.begin();
      const int row = static_cast<int>(owner) / b.table_pages;
      const int token = static_cast<int>(owner) % b.table_pages * kPageTokens + slot % kPageTokens;
      const bool before = window > 0 && token <= b.lengths[row] - b.counts[row] - window;
      if (page == 0 || token >= b.lengths[row] || before) {
        std::fill_n(b.k.begin() + slot * 16, 16, std::nanf(""));
        std::fill_n(b.v.begin() + slot * 16, 16, std::nanf(""));
      }
    }
    EXPECT_TRUE(same_bits(both().first, clean.first)) << window;
    EXPECT_TRUE(same_bits(both().second, clean.second)) << window;
  }
}

TEST(PagedAttention, GivesZerosWhereNothingIsCached) {
  const Batch b(2, 1, 16, {2}, {0});
  EXPECT_EQ(run(b, KvElement::float32, {}), std::vector<float>(2 * 2 * 16, 0.0f));
}

TEST(PagedAttention, RefusesShapesThatDoNotFit) {
  const Batch b(3, 2, 16, {1}, {4});
  EXPECT_THROW(run(b, KvElement::float32, {}), std::invalid_argument);
  const Batch wide(2, 1, 264, {1}, {4});
  EXPECT_THROW(run(wide, KvElement::float32, {}), std::invalid_argument);
  const Batch odd(2, 1, 12, {1}, {4});
  EXPECT_THROW(run(odd, KvElement::float32, {}), std::invalid_argument);
}

}  // namespace
}  // namespace pome::kernels
