#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/quantized_matmul/panel_memory.h"

// The layout behind QuantizedPanels; for the files of this folder.
namespace pome::kernels {

inline constexpr int64_t kPanelRows = 16;
// Columns that share one activation scale; padded columns are a multiple of it.
inline constexpr int64_t kActivationGroup = 32;

// Panel p holds output rows 16 p … 16 p + 15 (rows past the last are zero) as three runs:
// - codes: blocks of 64 bytes, four bytes (columns 4 j … 4 j + 3) a row. 8 bits: one block a quad
// of columns j. 4 bits:
//   one block two quads, quad 2 j in the low and 2 j + 1 in the high halves of the bytes.
// - scales: 16 a group of columns, f16 or f32.
// - biases: the same, absent where every bias is -zero_point · scale.
// A panel starts at a multiple of 64 bytes.
struct PanelStorage {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t padded_columns = 0;
  int bits = 4;
  int group_size = 32;
  bool wide_scales = false;    // f32, else f16
  bool stored_biases = false;  // else -zero_point() · scale

  int64_t panel_bytes = 0;
  int64_t scales_offset = 0;  // in a panel, bytes
  int64_t biases_offset = 0;
  PanelMemory memory;

  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t groups() const {
    return padded_columns / group_size + (padded_columns % group_size != 0);
  }
  int64_t bytes() const { return panels() * panel_bytes; }
  int32_t zero_point() const { return bits == 4 ? 8 : 128; }
  const uint8_t* panel(int64_t p) const { return memory.bytes() + p * panel_bytes; }
  uint8_t* panel(int64_t p) { return memory.bytes() + p * panel_bytes; }

  // Lays out the runs for the sizes above and allocates them.
  void allocate();
};

// One row as f32: out[k] = fma(scale, code, bias), k < columns.
void unpack_row(const PanelStorage& storage, int64_t row, float* out);

// The value as IEEE half if it is one exactly.
bool half_if_exact(float value, uint16_t* half);
float float_from_half(uint16_t half);

}  // namespace pome::kernels
