#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/kv_pages/kv_pages.h"
#include "tensor/mlx.h"

namespace pome::kernels {

// A ragged batch of R rows and T tokens over one cache group. Row r owns tokens
// [row_offsets[r], row_offsets[r + 1]), which are the last ones of its kv_lengths[r] cached tokens.
struct PagedRows {
  mx::array page_table;   // [R, P] int32: page of each block of page_tokens tokens, padded with any
                          // valid page
  mx::array row_offsets;  // [R + 1] int32
  mx::array kv_lengths;  // [R] int32: cached tokens, this step's included; at most P · page_tokens
  std::vector<int32_t> row_tokens;  // [R], what row_offsets say; the plain-ops twin is cut by it
};

struct AttentionOptions {
  float scale = 1.0f;  // of q · k
  int32_t window = 0;  // a query sees the last `window` positions, itself included; 0: all of them
  float softcap = 0.0f;  // scores become softcap · tanh(score / softcap); 0: off
  std::optional<mx::array> sinks =
      std::nullopt;  // [Hq] f32: a score per head that only enters the softmax's sum
};

// Causal attention of q [T, Hq, D] f32 over the pages → [T, Hq, D] f32. Hq is a multiple of Hkv; D
// is a multiple of 8, 8 to 256. Keys are walked in blocks of 64 at absolute positions with
// an online softmax, in block order, so a token's result does not depend on its neighbours, on
// chunking or on the number of threads. Rows without cached tokens give zeros.
mx::array paged_attention(const mx::array& q, const KvPages& pages, const PagedRows& rows,
                          const AttentionOptions& options);

namespace reference {
mx::array paged_attention(const mx::array& q, const KvPages& pages, const PagedRows& rows,
                          const AttentionOptions& options);
// Bytes that the plain-ops twin takes beyond its arguments and its result, at most, for so many
// rows with page tables of so many tokens.
int64_t attention_bytes_max(int64_t rows, int64_t tokens, int64_t kv_heads, int64_t head_dim);
}  // namespace reference
}  // namespace pome::kernels
