#pragma once

#include <optional>

#include "tensor/mlx.h"

namespace pome::kernels {

// x [T, K] f32 · wᵀ (+ bias [N] f32) → [T, N] f32, with w [N, K] row-major in f32, f16 or bf16,
// read where it lies (a mapped file at any alignment of its item size). f32 accumulation; a row's
// result does not depend on T or on the number of threads.
mx::array matmul_nt(const mx::array& x, const mx::array& w,
                    const std::optional<mx::array>& bias = std::nullopt);

// Rows of w [N, K] (f32, f16 or bf16): ids [T] int32 → [T, K] f32. Ids outside [0, N) give zeros.
mx::array matrix_rows(const mx::array& ids, const mx::array& w);

namespace reference {
mx::array matmul_nt(const mx::array& x, const mx::array& w, const std::optional<mx::array>& bias);
mx::array matrix_rows(const mx::array& ids, const mx::array& w);
}  // namespace reference
}  // namespace pome::kernels
