#pragma once

#include "tensor/mlx.h"

namespace pome::kernels {

// x / sqrt(mean(x²) + eps) · w over the last axis. x [..., D] f32, w [D] f32 (gemma's 1 + w is
// applied when it is loaded). Sums are f32 in a fixed order.
mx::array rms_norm(const mx::array& x, const mx::array& w, float eps);

struct SumAndNorm {
  mx::array sum;     // x + residual
  mx::array normed;  // rms_norm(sum, w, eps), the same bits
};

// A residual connection and the norm after it in one pass; x and residual [..., D] f32.
SumAndNorm add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& w,
                        float eps);

namespace reference {
mx::array rms_norm(const mx::array& x, const mx::array& w, float eps);
SumAndNorm add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& w,
                        float eps);
}  // namespace reference
}  // namespace pome::kernels
