#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tensor/mlx.h"

namespace pome::kernels {

// How a quantized matrix is handed over: codes with a scale and a bias for each group of columns,
// row by row. weight[n][k] = scale[n][k / group_size] * code[n][k] + bias[n][k / group_size].
struct PanelSource {
  int64_t rows = 0;     // N, output features; any number from 1
  int64_t columns = 0;  // K, input features; a multiple of group_size
  int bits = 4;         // 4: codes 0..15, 8: codes 0..255
  int group_size = 32;  // 16, 32, 64 or 128
  // Fills one row: `columns` codes, columns / group_size scales and biases. Called from several
  // threads at once. A row is asked for again when packing starts over, at most twice; it must come
  // out the same.
  std::function<void(int64_t row, std::span<uint8_t> codes, std::span<float> scales,
                     std::span<float> biases)>
      fill_row;
};

struct PanelStorage;

// A matrix repacked for the CPU product: panels of 16 output rows, four columns of a row side by
// side. Scales and biases are kept as f16 where all of them are exact in it, else as f32; biases
// that are -8 (4 bits) or -128 (8 bits) times the scale everywhere are not stored. Immutable;
// copies share the storage.
class QuantizedPanels {
 public:
  int64_t rows() const;
  int64_t columns() const;
  int bits() const;
  int group_size() const;
  size_t bytes() const;  // memory held
  const PanelStorage& storage() const { return *storage_; }
  const std::shared_ptr<const PanelStorage>& shared() const { return storage_; }

 private:
  friend QuantizedPanels pack_panels(const PanelSource& source);
  explicit QuantizedPanels(std::shared_ptr<const PanelStorage> storage)
      : storage_(std::move(storage)) {}
  std::shared_ptr<const PanelStorage> storage_;
};

// Packs on all workers; the extra memory is a panel's rows a thread. First it takes scales to be
// exact in f16 and biases to follow from them; a row that refutes one of the two makes it start
// over without that, so such a matrix is read up to there once more. Call it outside of evaluation
// or on the thread that evaluates. Throws std::invalid_argument for sizes outside the above.
QuantizedPanels pack_panels(const PanelSource& source);

// The matrix as [N, K] f32: scale * code + bias, rounded once (a fused multiply-add). For tests and
// the plain-ops twins.
mx::array unpack(const QuantizedPanels& w);

}  // namespace pome::kernels
