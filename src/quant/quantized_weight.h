#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "kernels/quantized_matmul/quantized_panels.h"
#include "tensor/mlx.h"
#include "tensor/weights.h"

namespace pome::quant {

// Which one form a quantized matrix is kept in.
//   panels: repacked for pome's own CPU products (kernels/quantized_matmul), every block type
//   exactly affine: MLX's own triple for mx::quantized_matmul, on a GPU or with own kernels off
//   dense:  plain numbers of the weights' dtype, where MLX's affine format has no such group (16
//   columns)
enum class Layout { panels, affine, dense };

// MLX's affine format: weight [N, K * bits / 32] uint32, scales and biases [N, K / group_size] in
// the activation dtype (another one would make MLX cast the scales at each call).
struct AffineArrays {
  mx::array weight;
  mx::array scales;
  mx::array biases;
};

// A matrix [rows N, columns K] of low-bit codes, in exactly one layout. Immutable; copies share the
// memory.
class QuantizedWeight {
 public:
  struct Form {
    int64_t rows = 0;
    int64_t columns = 0;
    int bits = 0;        // of a code as it is kept; 16 or 32 for the dense layout
    int group_size = 0;  // columns that share a scale
    std::string origin;  // "Q4_K", "affine 4-bit, groups of 64"
  };

  QuantizedWeight(Form form, kernels::QuantizedPanels panels);
  QuantizedWeight(Form form, AffineArrays arrays);
  QuantizedWeight(Form form, mx::array dense);

  Layout layout() const;
  const Form& form() const { return form_; }
  int64_t rows() const { return form_.rows; }
  int64_t columns() const { return form_.columns; }
  size_t bytes() const;  // memory held

  // CHECK that the layout is the one asked for.
  const kernels::QuantizedPanels& panels() const;
  const AffineArrays& affine() const;
  const mx::array& dense() const;

  // The whole matrix as [N, K] f32, for tests and references.
  mx::array unpack() const;

 private:
  Form form_;
  std::variant<kernels::QuantizedPanels, AffineArrays, mx::array> content_;
};

// A module whose "weight" is quantized, with the shape that the model expects of it (0: any).
struct QuantizedModule {
  tensor::Weights weights;
  int64_t rows = 0;
  int64_t columns = 0;
};

// True when the module's "weight" is a GGUF block type, or has MLX's "scales" beside it.
bool is_quantized(const tensor::Weights& module);

// True when the modules can be one matrix, rows of the first above those of the next: all
// quantized, with the same code width, groups and kind of bias.
bool can_stack(std::span<const QuantizedModule> modules);

// Reads the matrix (or the stack of matrices) into the layout of this process: panels when the own
// CPU kernels are on, else affine or dense. Works row by row on all cores and drops the file's
// pages behind it, so that memory stays about the file's size. Throws tensor::LoadError that names
// the tensor: wrong shape, NaN or infinite scales, scales that are all zero, a scale that the
// weights' dtype cannot hold, modules that do not stack.
QuantizedWeight load_quantized(std::span<const QuantizedModule> modules);
QuantizedWeight load_quantized(const QuantizedModule& module);

}  // namespace pome::quant
