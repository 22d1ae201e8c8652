#pragma once

#include <cstdint>

namespace pome::kernels {

enum class PageType { f32, f16, bf16, int8, int4 };

// One half of a KV pool as raw memory.
struct PageMemory {
  void* data = nullptr;
  PageType type = PageType::f32;
  int64_t pages = 0;
  int64_t page_tokens = 0;
  int64_t heads = 0;
  int64_t dim = 0;
  int64_t head_bytes = 0;  // of one head of one token
  int64_t group_size = 0;  // of int8 and int4: a power of two
  bool rotated = false;    // heads are rotated before they are coded (rotation.h): coded keys

  bool coded() const { return type == PageType::int8 || type == PageType::int4; }
  int64_t slots() const { return pages * page_tokens; }
  int64_t token_elements() const { return heads * dim; }
  int64_t token_bytes() const { return heads * head_bytes; }
  // Of int8 and int4; the last group of a head may be shorter.
  int64_t groups() const { return (dim + group_size - 1) / group_size; }
  int64_t code_bytes() const { return type == PageType::int4 ? dim / 2 : dim; }
};

// values [tokens, heads, dim] to slots [tokens]; slots outside the pool are skipped.
void run_append(const PageMemory& pages, const float* values, const int32_t* slots, int64_t tokens);
// Whole pages, one after the other; pages outside the pool are skipped.
void run_copy(const PageMemory& pages, const int32_t* from, const int32_t* to, int64_t count);

}  // namespace pome::kernels
