#pragma once

#include <mlx/mlx.h>

#include "kernels/kv_pages/kv_pages.h"
#include "kernels/kv_pages/page_memory.h"
#include "tensor/mlx.h"

namespace pome::kernels {

// Sizes and format of one half of a pool, without its memory.
PageMemory pool_shape(const mx::array& half, const std::optional<CodedHeads>& coded);

// One half as memory; call it once the array has its buffer.
PageMemory key_memory(const mx::array& half, const std::optional<CodedHeads>& coded);
PageMemory value_memory(const mx::array& half, const std::optional<CodedHeads>& coded);

// Throws std::invalid_argument unless both halves are pools of one shape and a supported dtype.
void check_pages(const KvPages& pages);

// `out` becomes another handle of `half`'s buffer, whoever else holds it.
void alias_pages(const mx::array& half, mx::array& out);

}  // namespace pome::kernels
