#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "kernels/activation/activation.h"
#include "layers/forward.h"
#include "quant/quantized_weight.h"
#include "tensor/mlx.h"
#include "tensor/weights.h"

namespace pome::layers {

// A module of the checkpoint with so many output features.
struct Projection {
  tensor::Weights weights;
  int32_t rows = 0;
};

struct LinearOptions {
  bool bias = false;  // the modules have a "bias" [N] beside their "weight" [N, K]
};

// y = x · Wᵀ (+ b). Dense or quantized as the checkpoint has it. Made of several modules over the
// same input, the results lie side by side: [T, N0 + N1 + …]; modules whose layouts agree become
// one product. Copies share the weights.
class Linear {
 public:
  Linear(const tensor::Weights& w, int32_t columns, int32_t rows, LinearOptions options = {});
  Linear(std::span<const Projection> modules, int32_t columns, LinearOptions options = {});
  // A product with a matrix that another layer read (a tied head).
  explicit Linear(std::variant<mx::array, quant::QuantizedWeight> weight);

  // x [T, K] → [T, N].
  mx::array operator()(const mx::array& x, const Forward& f) const;
  // For a stack of two modules of F rows, gate and up: activation(gate) · up, [T, F].
  mx::array gated(const mx::array& x, const Forward& f, kernels::GatedActivation activation) const;

 private:
  struct Product {
    std::variant<mx::array, quant::QuantizedWeight> weight;  // dense [N, K] in the file's dtype
    std::optional<mx::array> bias;                           // [N]
  };
  static Product read(std::span<const Projection> modules, int32_t columns,
                      const LinearOptions& options);
  static mx::array multiply(const mx::array& x, const Product& product);

  std::vector<Product> products_;
};

}  // namespace pome::layers
