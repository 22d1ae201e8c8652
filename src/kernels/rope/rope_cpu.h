#pragma once

#include <cstdint>

#include "kernels/kv_pages/page_memory.h"

namespace pome::kernels {

struct RopeTable {
  const int32_t* positions = nullptr;  // [T]
  const float* frequencies = nullptr;  // [dims / 2]
  int64_t dims = 0;
  float scale = 1.0f;
  float amplitude = 1.0f;
  bool traditional = false;
};

// x [tokens, heads, dim] to out, which may be x. On the calling thread and the pool.
void run_rope(const RopeTable& table, const float* x, int64_t tokens, int64_t heads, int64_t dim,
              float* out);

struct RopeAppend {
  RopeTable table;
  const float* qkv = nullptr;     // [tokens, (q_heads + 2 kv heads) · dim]
  const float* q_norm = nullptr;  // [dim] or null
  const float* k_norm = nullptr;  // [dim], with q_norm
  float eps = 0.0f;
  const int32_t* slots = nullptr;
  PageMemory k;
  PageMemory v;
  float* q = nullptr;  // [tokens, q_heads, dim]
  int64_t tokens = 0;
  int64_t q_heads = 0;
};

void run_rope_append(const RopeAppend& work);

}  // namespace pome::kernels
