#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "kernels/paged_attention/paged_attention.h"

namespace pome::kernels::reference {
namespace {

// Keys and values of one gather, as f32, are at most so many bytes unless a single page is more;
// scores of one tile are at most so many elements, unless those of a token and a page are more.
constexpr int64_t kGatherBytesMax = int64_t{64} << 20;
constexpr int64_t kScoresMax = int64_t{4} << 20;

// What is attended at once: so many rows, pages of each, and tokens of each.
struct Tile {
  int rows = 1;
  int pages = 1;
  int tokens = 1;
};

int within(int64_t value, int64_t most) {
  return static_cast<int>(std::clamp<int64_t>(value, 1, std::max<int64_t>(most, 1)));
}

// Of rows that have `tokens` tokens each.
Tile tile_of(const PagedRows& rows, const KvPages& pages, int q_heads, int tokens) {
  const int64_t page_bytes =
      int64_t{2} * 4 * pages.page_tokens() * pages.heads() * pages.head_dim();
  const int64_t page_scores = int64_t{1} * q_heads * pages.page_tokens();
  const int64_t at_once =
      std::max<int64_t>(std::min(kGatherBytesMax / page_bytes, kScoresMax / page_scores), 1);
  Tile tile;
  tile.pages = within(at_once, rows.page_table.shape(1));
  tile.rows = within(at_once / tile.pages, rows.page_table.shape(0));
  tile.tokens = within(kScoresMax / (page_scores * tile.rows * tile.pages), tokens);
  return tile;
}

// Keys or values of every row: one half of the pool → [R, H, L, D] f32 with L = P · page_tokens.
mx::array gather_rows(const mx::array& half, const std::optional<CodedHeads>& coded,
                      const mx::array& page_table) {
  const int rows = page_table.shape(0);
  const int tokens = page_table.shape(1) * half.shape(1);
  const mx::array gathered =
      mx::reshape(mx::take(half, page_table, 0), {rows, tokens, half.shape(2), half.shape(3)});
  const mx::array heads =
      coded ? decode_heads(gathered, *coded) : mx::astype(gathered, mx::float32);
  return mx::transpose(heads, {0, 2, 1, 3});
}

// Which of the L key positions from `first` on each query of the tile sees: [R, 1, M, L].
mx::array visible(const mx::array& positions, const mx::array& kv_lengths, int first, int tokens,
                  int32_t window) {
  const mx::array keys = mx::reshape(mx::arange(first, first + tokens), {1, 1, 1, tokens});
  const mx::array query = mx::expand_dims(mx::expand_dims(positions, 1), -1);
  mx::array mask = mx::logical_and(keys <= query,
                                   keys < mx::reshape(kv_lengths, {kv_lengths.shape(0), 1, 1, 1}));
  if (window > 0) {
    mask = mx::logical_and(mask, keys > query - mx::array(window));
  }
  return mask;
}

// The softmax of queries [R, Hq, M] over some keys: out = values / total once all are merged.
struct SoftmaxState {
  mx::array largest;  // [R, Hq, M, 1], finite
  mx::array total;    // [R, Hq, M, 1]
  mx::array values;   // [R, Hq, M, D]
};

// q [R, Hq, M, D], k and v [R, Hkv, L, D], mask [R, 1, M, L].
SoftmaxState attend(const mx::array& q, const mx::array& k, const mx::array& v,
                    const mx::array& mask, const AttentionOptions& options) {
  const int rows = q.shape(0);
  const int q_heads = q.shape(1);
  const int tile = q.shape(2);
  const int dim = q.shape(3);
  const int kv_heads = k.shape(1);
  const int tokens = k.shape(2);
  const int group = q_heads / kv_heads;
  const mx::array queries =
      mx::reshape(q * mx::array(options.scale), {rows, kv_heads, group * tile, dim});
  mx::array scores = mx::reshape(mx::matmul(queries, mx::transpose(k, {0, 1, 3, 2})),
                                 {rows, q_heads, tile, tokens});
  if (options.softcap > 0.0f) {
    const mx::array cap(options.softcap);
    scores = cap * mx::tanh(scores / cap);
  }
  scores = mx::where(mask, scores, mx::array(-std::numeric_limits<float>::infinity()));
  const mx::array largest =
      mx::maximum(mx::max(scores, -1, true), mx::array(std::numeric_limits<float>::lowest()));
  const mx::array weights = mx::exp(scores - largest);
  // What no query sees may be anything: zero times a NaN that somebody left would be one.
  const mx::array seen = mx::reshape(mx::any(mask, 2), {rows, 1, tokens, 1});
  const mx::array values = mx::where(seen, v, mx::array(0.0f));
  return {.largest = largest,
          .total = mx::sum(weights, -1, true),
          .values = mx::reshape(
              mx::matmul(mx::reshape(weights, {rows, kv_heads, group * tile, tokens}), values),
              {rows, q_heads, tile, dim})};
}

SoftmaxState merged(const SoftmaxState& a, const SoftmaxState& b) {
  const mx::array largest = mx::maximum(a.largest, b.largest);
  const mx::array keep = mx::exp(a.largest - largest);
  const mx::array add = mx::exp(b.largest - largest);
  return {.largest = largest,
          .total = a.total * keep + b.total * add,
          .values = a.values * keep + b.values * add};
}

// The sinks join the sum, and the weighted values become the output [R, M, Hq, D].
mx::array finished(SoftmaxState state, const AttentionOptions& options) {
  if (options.sinks) {
    const mx::array sinks = mx::reshape(*options.sinks, {1, state.total.shape(1), 1, 1});
    const mx::array largest = mx::maximum(state.largest, sinks);
    const mx::array keep = mx::exp(state.largest - largest);
    state.total = state.total * keep + mx::exp(sinks - largest);
    state.values = state.values * keep;
  }
  const mx::array out =
      mx::where(state.total > mx::array(0.0f), state.values / state.total, mx::array(0.0f));
  return mx::transpose(out, {0, 2, 1, 3});
}

// Rows that are attended together, as indices into the batch; the shorter ones are filled up.
struct RowSet {
  std::vector<int32_t> rows;
  int tokens = 1;  // of the longest
};

// Rows of similar length share a set, so that filling up at most doubles the work and the number of
// operations does not grow with the batch; a set is what one gather holds.
std::vector<RowSet> row_sets(const PagedRows& rows, const KvPages& pages, int q_heads) {
  const auto rows_max = static_cast<size_t>(tile_of(rows, pages, q_heads, 1).rows);
  std::map<int, RowSet> open;  // by the bits of the number of tokens
  std::vector<RowSet> sets;
  for (size_t row = 0; row < rows.row_tokens.size(); ++row) {
    const int tokens = rows.row_tokens[row];
    if (tokens == 0) {
      continue;
    }
    const auto bits = static_cast<int>(std::bit_width(static_cast<uint32_t>(tokens)));
    RowSet& set = open[bits];
    set.rows.push_back(static_cast<int32_t>(row));
    set.tokens = std::max(set.tokens, tokens);
    if (set.rows.size() >= rows_max) {
      sets.push_back(std::move(set));
      open.erase(bits);
    }
  }
  for (auto& [bits, set] : open) {
    sets.push_back(std::move(set));
  }
  return sets;
}

bool ascending(const std::vector<int32_t>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

// A set's queries, and what says which keys are theirs.
struct RowGroup {
  mx::array q;           // [R, Hq, tokens, D]
  mx::array page_table;  // [R, P]
  mx::array kv_lengths;  // [R]
  mx::array starts;      // [R]: positions of the first tokens
  int tokens = 1;
};

// `first_tokens`, [R of the batch]: where each row's tokens begin in q.
RowGroup group_of(const mx::array& q, const PagedRows& rows, const RowSet& set,
                  const std::vector<int32_t>& first_tokens) {
  std::vector<int32_t> tokens;
  std::vector<int32_t> counts;
  for (const int32_t row : set.rows) {
    const int32_t count = rows.row_tokens[static_cast<size_t>(row)];
    counts.push_back(count);
    for (int i = 0; i < set.tokens; ++i) {
      tokens.push_back(first_tokens[static_cast<size_t>(row)] + std::min(i, count - 1));
    }
  }
  const auto count = static_cast<int>(set.rows.size());
  const auto as_array = [](const std::vector<int32_t>& values, const mx::Shape& shape) {
    return mx::array(values.data(), shape, mx::int32);
  };
  const bool all = count == rows.page_table.shape(0);
  const auto of_set = [&](const mx::array& of_batch) {
    return all ? of_batch : mx::take(of_batch, as_array(set.rows, {count}), 0);
  };
  const mx::array lengths = of_set(rows.kv_lengths);
  const bool as_they_lie =
      all && static_cast<int>(tokens.size()) == q.shape(0) && ascending(tokens);
  const mx::array own = as_they_lie ? mx::reshape(q, {count, set.tokens, q.shape(1), q.shape(2)})
                                    : mx::take(q, as_array(tokens, {count, set.tokens}), 0);
  return {.q = mx::transpose(own, {0, 2, 1, 3}),
          .page_table = of_set(rows.page_table),
          .kv_lengths = lengths,
          .starts = lengths - as_array(counts, {count}),
          .tokens = set.tokens};
}

// Output [R · tokens, Hq, D]. A block of pages is gathered, and a tile of tokens scored, when the
// one before has been attended, so that one is in memory at a time; `after` is what the first one
// waits for.
mx::array attend_rows(const KvPages& pages, const RowGroup& group, const Tile& tile,
                      const AttentionOptions& options, std::optional<mx::array> after) {
  std::vector<SoftmaxState> states;
  const mx::Shape shape = group.q.shape();
  const int table_pages = group.page_table.shape(1);
  for (int page = 0; page < table_pages; page += tile.pages) {
    const int end = std::min(page + tile.pages, table_pages);
    mx::array table = mx::slice(group.page_table, mx::Shape{0, page}, mx::Shape{shape[0], end});
    if (after) {
      table = mx::depends({table}, {*after})[0];
    }
    const mx::array k = gather_rows(pages.k, pages.coded, table);
    const mx::array v = gather_rows(pages.v, pages.coded, table);
    size_t t = 0;
    for (int first = 0; first < group.tokens; first += tile.tokens, ++t) {
      const int last = std::min(first + tile.tokens, group.tokens);
      mx::array q = mx::slice(group.q, mx::Shape{0, 0, first, 0},
                              mx::Shape{shape[0], shape[1], last, shape[3]});
      if (t > 0) {
        q = mx::depends({q}, {*after})[0];
      }
      const mx::array positions = mx::expand_dims(group.starts, 1) +
                                  mx::reshape(mx::arange(first, last), {1, last - first});
      const mx::array mask = visible(positions, group.kv_lengths, page * pages.page_tokens(),
                                     (end - page) * pages.page_tokens(), options.window);
      SoftmaxState state = attend(q, k, v, mask, options);
      if (page == 0) {
        states.push_back(std::move(state));
      } else {
        states[t] = merged(states[t], state);
      }
      after = states[t].values;
    }
  }
  std::vector<mx::array> outs;
  for (const SoftmaxState& state : states) {
    outs.push_back(finished(state, options));
  }
  return mx::flatten(mx::concatenate(outs, 1), 0, 1);
}

// The outputs of all sets, [their tokens, Hq, D] each, as the batch's tokens lie; a token that no
// row has, place -1, gets zeros.
mx::array in_order(std::vector<mx::array> outs, std::vector<int32_t> places, const mx::array& q) {
  int32_t count = 0;
  for (const mx::array& out : outs) {
    count += out.shape(0);
  }
  if (std::find(places.begin(), places.end(), -1) != places.end()) {
    outs.push_back(mx::zeros({1, q.shape(1), q.shape(2)}, mx::float32));
    std::replace(places.begin(), places.end(), -1, count);
  }
  const mx::array out = outs.size() == 1 ? outs[0] : mx::concatenate(outs, 0);
  const bool as_they_lie = out.shape(0) == q.shape(0) && ascending(places);
  return as_they_lie ? out : mx::take(out, mx::array(places.data(), {q.shape(0)}, mx::int32), 0);
}

}  // namespace

mx::array paged_attention(const mx::array& queries_in, const KvPages& pages, const PagedRows& rows,
                          const AttentionOptions& options) {
  const mx::array q = pages.coded ? rotate_heads(queries_in, Rotated::query) : queries_in;
  std::vector<int32_t> first_tokens(rows.row_tokens.size());
  std::exclusive_scan(rows.row_tokens.begin(), rows.row_tokens.end(), first_tokens.begin(), 0);
  std::vector<mx::array> outs;
  std::vector<int32_t> places(static_cast<size_t>(q.shape(0)), -1);  // of each token in the outputs
  int32_t place = 0;
  for (const RowSet& set : row_sets(rows, pages, q.shape(1))) {
    const RowGroup group = group_of(q, rows, set, first_tokens);
    const auto after = outs.empty() ? std::nullopt : std::optional<mx::array>(outs.back());
    const Tile tile = tile_of(rows, pages, q.shape(1), set.tokens);
    outs.push_back(attend_rows(pages, group, tile, options, after));
    for (const int32_t row : set.rows) {
      const int32_t count = rows.row_tokens[static_cast<size_t>(row)];
      std::iota(places.begin() + first_tokens[static_cast<size_t>(row)],
                places.begin() + first_tokens[static_cast<size_t>(row)] + count, place);
      place += set.tokens;
    }
  }
  return in_order(std::move(outs), std::move(places), q);
}

int64_t attention_bytes_max(int64_t rows, int64_t tokens, int64_t kv_heads, int64_t head_dim) {
  // A gather as it lies in the pool, as f32, and masked or copied for the product; of the scores
  // the product, the masked ones and the weights.
  constexpr int64_t kGathers = 3;
  constexpr int64_t kScores = 3;
  const int64_t gather = std::min(kGatherBytesMax, rows * tokens * kv_heads * head_dim * 2 * 4);
  return kGathers * gather + kScores * kScoresMax * 4;
}

}  // namespace pome::kernels::reference
