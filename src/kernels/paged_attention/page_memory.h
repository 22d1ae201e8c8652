#pragma once

#include <mlx/mlx.h>

#include "kernels/paged_attention/paged_attention.h"
#include "kernels/paged_attention/paged_attention_cpu.h"
#include "tensor/mlx.h"

namespace pome::kernels {

// Pages [pages, page_tokens, H, D] as memory; call it once the array has its buffer.
PageMemory page_memory(const mx::array& pages);

// Throws std::invalid_argument unless both halves are pools of one shape and a supported dtype.
void check_pages(const KvPages& pages);

// `out` becomes another handle of `pages`' buffer, whoever else holds it.
void alias_pages(const mx::array& pages, mx::array& out);

}  // namespace pome::kernels
