#pragma once

#include <cstdint>

namespace pome::kvcache {

// How a number of keys and values is stored.
enum class KvElement { float16, bfloat16, float32, int8, int4 };

// How one head of one token lies in a page of the pool, keys and values alike. Integers are affine:
// groups of `group_size` numbers along the head (the last group of a head may be shorter) share a
// scale and a bias, x ≈ scale · code + bias. Such a head is stored as its codes (int4: element 2 i
// in the low half of byte i), then scale and bias of each group as IEEE halves.
struct KvFormat {
  KvElement element = KvElement::float16;
  int32_t group_size = 64;  // 32, 64 or 128; of int8 and int4 alone

  bool coded() const { return element == KvElement::int8 || element == KvElement::int4; }
  int32_t bits() const {
    switch (element) {
      case KvElement::float32:
        return 32;
      case KvElement::float16:
      case KvElement::bfloat16:
        return 16;
      case KvElement::int8:
        return 8;
      case KvElement::int4:
        return 4;
    }
    return 0;
  }
  int32_t groups(int32_t head_dim) const {
    return coded() ? (head_dim + group_size - 1) / group_size : 0;
  }
  // The codes alone, or the floats. head_dim is even.
  int64_t code_bytes(int32_t head_dim) const { return int64_t{head_dim} * bits() / 8; }
  // All that a head of one token takes.
  int64_t head_bytes(int32_t head_dim) const {
    return code_bytes(head_dim) + int64_t{4} * groups(head_dim);
  }

  bool operator==(const KvFormat&) const = default;
};

}  // namespace pome::kvcache
