#pragma once

#include <cstdint>
#include <variant>

#include "layers/forward.h"
#include "layers/linear.h"
#include "quant/quantized_weight.h"
#include "tensor/mlx.h"
#include "tensor/weights.h"

namespace pome::layers {

// The rows of a matrix [V, H], dense or quantized as the checkpoint has it.
class Embedding {
 public:
  Embedding(const tensor::Weights& w, int32_t vocab, int32_t hidden);

  // tokens [T] int32 → [T, H]; ids outside the vocabulary give zeros.
  mx::array operator()(const mx::array& tokens, const Forward& f) const;
  // The output head that shares this matrix: x [O, H] → logits [O, V].
  Linear tied_head() const;

 private:
  std::variant<mx::array, quant::QuantizedWeight> weight_;
};

}  // namespace pome::layers
