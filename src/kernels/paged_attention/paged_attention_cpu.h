#pragma once

#include <cstdint>

namespace pome::kernels {

enum class PageType { f32, f16, bf16 };

// One half of a KV pool as raw memory.
struct PageMemory {
  void* data = nullptr;
  PageType type = PageType::f32;
  int64_t pages = 0;
  int64_t page_tokens = 0;
  int64_t heads = 0;
  int64_t dim = 0;

  int64_t slots() const { return pages * page_tokens; }
  int64_t token_elements() const { return heads * dim; }
};

// values [tokens, heads, dim] to slots [tokens]; slots outside the pool are skipped.
void run_append(const PageMemory& pages, const float* values, const int32_t* slots, int64_t tokens);

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
};

// On the calling thread and the pool.
void run_paged_attention(const PagedAttention& attention);

}  // namespace pome::kernels
