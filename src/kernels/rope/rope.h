#pragma once

#include <cstdint>
#include <optional>

#include "kernels/kv_pages/kv_pages.h"
#include "tensor/mlx.h"

namespace pome::kernels {

// Rotary position embedding (RoFormer, arXiv 2104.09864). Pair i of the first `dims` elements of a
// head is turned by scale · position · inverse_frequencies[i].
struct RopeOptions {
  int32_t dims = 0;       // even, at most the head's size
  float base = 10000.0f;  // inverse_frequencies[i] = base^(-2i / dims) where none are given
  float scale = 1.0f;     // of the position (linear scaling by a factor f is 1 / f)
  bool traditional =
      false;  // pairs are (2i, 2i + 1); else (i, i + dims / 2), as in Hugging Face checkpoints
  std::optional<mx::array> inverse_frequencies =
      std::nullopt;        // [dims / 2] f32: llama3, linear, yarn scaling
  float amplitude = 1.0f;  // multiplies sine and cosine (yarn's attention factor)
};

// x [T, H, D] f32, positions [T] int32 → [T, H, D] f32.
mx::array rope(const mx::array& x, const mx::array& positions, const RopeOptions& options);

// The heads' own norms, where a model has them (qwen3, gemma3): rms_norm over D before the
// rotation.
struct HeadNorms {
  mx::array q;  // [D] f32
  mx::array k;  // [D] f32
  float eps = 1e-6f;
};

struct RopedQuery {
  mx::array q;    // [T, Hq, D] f32
  KvPages pages;  // the pool's next handles, as from paged_append
};

// Everything between the fused q-k-v product and attention in one pass: qkv [T, (Hq + 2 Hkv) · D]
// f32, heads of q, then of k, then of v; norms (if any), rotation of q and k, append of k and v to
// the pages at slots [T]. The same bits as rms_norm, rope and paged_append one after another. D and
// Hkv are the pages'.
RopedQuery rope_append(const mx::array& qkv, const mx::array& positions, const KvPages& pages,
                       const mx::array& slots, const RopeOptions& options,
                       const std::optional<HeadNorms>& norms = std::nullopt);

namespace reference {
// q [T, Hq, D], and k and v [T, Hkv, D] as they are appended: rope_append() without the pool.
struct RopedParts {
  mx::array q;
  mx::array k;
  mx::array v;
};
RopedParts rope_parts(const mx::array& qkv, const mx::array& positions, int kv_heads, int dim,
                      const RopeOptions& options, const std::optional<HeadNorms>& norms);
mx::array rope(const mx::array& x, const mx::array& positions, const RopeOptions& options);
RopedQuery rope_append(const mx::array& qkv, const mx::array& positions, const KvPages& pages,
                       const mx::array& slots, const RopeOptions& options,
                       const std::optional<HeadNorms>& norms);
}  // namespace reference
}  // namespace pome::kernels
