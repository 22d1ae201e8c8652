#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kv_pages/page_memory.h"

namespace pome::kernels {

// Keys of one split, at absolute positions: they are weighed together, and a row's splits are
// merged in order, whether or not different threads take them.
inline constexpr int kSplitKeys = 256;

// Positions [begin, end).
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

struct PagedAttention {
  PageMemory k;
  PageMemory v;
  const float* q = nullptr;              // [T, q_heads, dim]
  float* out = nullptr;                  // the same shape
  const int32_t* page_table = nullptr;   // [rows, table_pages]
  const int32_t* row_offsets = nullptr;  // [rows + 1]
  const int32_t* kv_lengths = nullptr;   // [rows]
  const float* sinks = nullptr;          // [q_heads] or null
  int64_t tokens = 0;
  int64_t rows = 0;
  int64_t table_pages = 0;
  int64_t q_heads = 0;
  float scale = 1.0f;
  int32_t window = 0;
  float softcap = 0.0f;

  int64_t group() const { return q_heads / k.heads; }
  // What a query at this position sees.
  KeyRange seen_from(int64_t position) const {
    const int64_t first = window > 0 ? position - window + 1 : 0;
    return {std::max<int64_t>(first, 0), std::max<int64_t>(position + 1, 0)};
  }
};

// On the calling thread and the pool.
void run_paged_attention(const PagedAttention& attention);

}  // namespace pome::kernels
