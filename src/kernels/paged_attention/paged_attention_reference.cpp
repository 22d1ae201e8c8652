#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/paged_attention/paged_attention.h"

namespace pome::kernels::reference {
namespace {

// Scores of one tile never exceed this many elements.
constexpr int64_t kScoresMax = int64_t{16} << 20;

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

// Which of the L key positions each query of the tile sees: [R, 1, M, L].
mx::array visible(const mx::array& positions, const mx::array& kv_lengths, int tokens,
                  int32_t window) {
  const mx::array keys = mx::reshape(mx::arange(tokens), {1, 1, 1, tokens});
  const mx::array query = mx::expand_dims(mx::expand_dims(positions, 1), -1);
  mx::array mask = mx::logical_and(keys <= query,
                                   keys < mx::reshape(kv_lengths, {kv_lengths.shape(0), 1, 1, 1}));
  if (window > 0) {
    mask = mx::logical_and(mask, keys > query - mx::array(window));
  }
  return mask;
}

// q [R, Hq, M, D], k and v [R, Hkv, L, D], mask [R, 1, M, L] → [R, Hq, M, D].
mx::array attend(const mx::array& q, const mx::array& k, const mx::array& v, const mx::array& mask,
                 const AttentionOptions& options) {
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
  mx::array largest = mx::max(scores, -1, true);
  if (options.sinks) {
    largest = mx::maximum(largest, mx::reshape(*options.sinks, {1, q_heads, 1, 1}));
  }
  largest = mx::maximum(largest, mx::array(std::numeric_limits<float>::lowest()));
  const mx::array weights = mx::exp(scores - largest);
  mx::array total = mx::sum(weights, -1, true);
  if (options.sinks) {
    total = total + mx::exp(mx::reshape(*options.sinks, {1, q_heads, 1, 1}) - largest);
  }
  const mx::array summed =
      mx::reshape(mx::matmul(mx::reshape(weights, {rows, kv_heads, group * tile, tokens}), v),
                  {rows, q_heads, tile, dim});
  return mx::where(total > mx::array(0.0f), summed / total, mx::array(0.0f));
}

}  // namespace

mx::array paged_attention(const mx::array& queries_in, const KvPages& pages, const PagedRows& rows,
                          const AttentionOptions& options) {
  const mx::array q = pages.coded ? rotate_heads(queries_in, Rotated::query) : queries_in;
  const int row_count = rows.page_table.shape(0);
  const int q_heads = q.shape(1);
  const int tokens = rows.page_table.shape(1) * pages.page_tokens();
  const mx::array k = gather_rows(pages.k, pages.coded, rows.page_table);
  const mx::array v = gather_rows(pages.v, pages.coded, rows.page_table);
  const mx::array begins = mx::slice(rows.row_offsets, mx::Shape{0}, mx::Shape{row_count});
  const mx::array ends = mx::slice(rows.row_offsets, mx::Shape{1}, mx::Shape{row_count + 1});
  const mx::array counts = ends - begins;
  const int64_t scores_per_token = int64_t{1} * row_count * q_heads * tokens;
  const int tile_max = static_cast<int>(std::clamp<int64_t>(
      kScoresMax / std::max<int64_t>(scores_per_token, 1), 1, rows.row_tokens_max));
  // Every row is padded to row_tokens_max queries and attended tile by tile; surplus ones repeat
  // the last token.
  std::vector<mx::array> tiles;
  for (int first = 0; first < rows.row_tokens_max; first += tile_max) {
    const int last = std::min(first + tile_max, rows.row_tokens_max);
    const mx::array index =
        mx::minimum(mx::reshape(mx::arange(first, last), {1, last - first}),
                    mx::expand_dims(mx::maximum(counts - mx::array(1), mx::array(0)), 1));
    const mx::array token =
        mx::clip(mx::expand_dims(begins, 1) + index, mx::array(0), mx::array(q.shape(0) - 1));
    const mx::array positions = mx::expand_dims(rows.kv_lengths - counts, 1) + index;
    const mx::array queries = mx::transpose(mx::take(q, token, 0), {0, 2, 1, 3});
    const mx::array mask = visible(positions, rows.kv_lengths, tokens, options.window);
    tiles.push_back(mx::transpose(attend(queries, k, v, mask, options), {0, 2, 1, 3}));
  }
  const mx::array padded = mx::flatten(mx::concatenate(tiles, 1), 0, 1);
  // Back to ragged: token t of row r lies at r · row_tokens_max + (t - begin).
  const mx::array every = mx::arange(q.shape(0));
  const mx::array row =
      mx::sum(mx::astype(mx::expand_dims(every, 1) >= mx::expand_dims(ends, 0), mx::int32), 1);
  const mx::array known = mx::minimum(row, mx::array(row_count - 1));
  const mx::array place =
      known * mx::array(rows.row_tokens_max) + every - mx::take(begins, known, 0);
  return mx::take(padded, place, 0);
}

}  // namespace pome::kernels::reference
