#pragma once

#include <cstdint>

namespace pome::kernels {

// 32 columns of one row of activations as integers: x[k] ≈ scale · q[k], |q| <= 32639, in whatever
// order of bytes the dot product in use reads them.
struct alignas(32) GroupInput {
  // int8 dot product: 32 high and 32 low planes, q = 256 · high + low, both signed.
  // int16 pairs: for each quad of columns q0, q2, q1, q3.
  int8_t planes[64];
  float scale;
  int32_t sum;           // of all q, exact
  float weighted;        // scale · sum
  int32_t half_sums[2];  // of the first and the last 16
  float half_weighted[2];
};
static_assert(sizeof(GroupInput) == 96);

// 127 · 256 + 127: the largest q whose high plane still fits in a signed byte.
inline constexpr float kQuantizedMax = 32639.0f;

}  // namespace pome::kernels
