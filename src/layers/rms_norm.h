#pragma once

#include <cstdint>

#include "kernels/norm/norm.h"
#include "layers/forward.h"
#include "tensor/mlx.h"
#include "tensor/weights.h"

namespace pome::layers {

// x / sqrt(mean(x²) + eps) · w (arXiv 1910.07467).
class RmsNorm {
 public:
  RmsNorm(const tensor::Weights& w, int32_t size, float eps)
      : weight_(w.get("weight", {size})), eps_(eps) {}

  // x [T, H] → [T, H].
  mx::array operator()(const mx::array& x, const Forward&) const {
    return kernels::rms_norm(x, weight_, eps_);
  }
  // A residual sum and its norm in one pass: {h + delta, norm(h + delta)}.
  kernels::SumAndNorm after_sum(const mx::array& h, const mx::array& delta, const Forward&) const {
    return kernels::add_rms_norm(delta, h, weight_, eps_);
  }
  const mx::array& weight() const { return weight_; }

 private:
  mx::array weight_;
  float eps_;
};

}  // namespace pome::layers
