#pragma once

#include <cstdint>

// Keys of a pool of integers are turned before they are coded, and queries with them, so that no
// column of a head stands out and widens the range of its group. Blocks of a head's columns, 64 or
// the largest power of two that is left, are multiplied by the signs below and by a Walsh-Hadamard
// matrix; dot products of queries and keys stay what they were. Key blocks are scaled by 2^-3 (64
// and 32 columns) or 2^-2 (16 and 8), query blocks by what is missing to 1 / columns: both exact.
namespace pome::kernels {

inline constexpr int kRotatedColumns = 64;

inline constexpr int rotated_block(int columns_left) {
  int columns = kRotatedColumns;
  while (columns > columns_left) {
    columns /= 2;
  }
  return columns;
}

enum class Rotated { key, query };

inline constexpr float rotation_scale(int columns, Rotated what) {
  const float key = columns >= 32 ? 0.125f : 0.25f;
  return what == Rotated::key ? key : 1.0f / (static_cast<float>(columns) * key);
}

// Which columns of a block change their sign: bit c, columns of every block alike. Drawn once.
inline constexpr uint64_t kRotationSigns = 0x9e64'b3a5'1c7d'e08bU;

inline constexpr bool rotation_negates(int column) {
  return (kRotationSigns >> (column % kRotatedColumns) & 1) != 0;
}

}  // namespace pome::kernels
