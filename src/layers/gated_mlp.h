#pragma once

#include <cstdint>

#include "kernels/activation/activation.h"
#include "layers/forward.h"
#include "layers/linear.h"
#include "tensor/mlx.h"
#include "tensor/weights.h"

namespace pome::layers {

using Activation = kernels::GatedActivation;

// down_proj(activation(gate_proj(x)) · up_proj(x)), arXiv 2002.05202.
class GatedMlp {
 public:
  GatedMlp(const tensor::Weights& w, int32_t hidden, int32_t intermediate, Activation activation);

  // x [T, H] → [T, H].
  mx::array operator()(const mx::array& x, const Forward& f) const;

 private:
  Linear gate_up_proj_;  // F columns of gate, then F of up
  Linear down_proj_;
  Activation activation_;
};

}  // namespace pome::layers
