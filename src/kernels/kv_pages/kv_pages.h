#pragma once

#include <cstdint>
#include <optional>

#include "kernels/kv_pages/heads/rotation.h"
#include "kvcache/kv_format.h"
#include "tensor/mlx.h"

namespace pome::kernels {

// How the heads of a pool of integers are coded.
struct CodedHeads {
  int32_t dim = 0;  // D, which the arrays' shape does not tell
  kvcache::KvFormat format = {};
};

// The two halves of a paged KV pool: [pages, page_tokens, Hkv, D] each, in f32, f16 or bf16, or,
// coded as integers, [pages, page_tokens, Hkv, bytes of a head] uint8 as kvcache::KvFormat says.
struct KvPages {
  mx::array k;
  mx::array v;
  std::optional<CodedHeads> coded = std::nullopt;

  int32_t pages() const { return k.shape(0); }
  int32_t page_tokens() const { return k.shape(1); }
  int32_t heads() const { return k.shape(2); }
  int32_t head_dim() const { return coded ? coded->dim : k.shape(3); }
};

// Writes k and v [T, Hkv, D] to slots [T] int32 (page · page_tokens + offset) and returns the
// pool's next handles. Own primitive: the outputs always alias the pool, whoever else holds it, so
// nothing is copied while a step is in flight; whoever reads the pages next must take the returned
// handles. Values are rounded to the pool's dtype, or coded once, here (keys after a rotation):
// every reader sees the same numbers. A slot outside the pool is skipped. A group with a NaN or an
// infinity reads back as NaN from a coded pool, and numbers past ±65504 are cut to that.
KvPages paged_append(const KvPages& pages, const mx::array& k, const mx::array& v,
                     const mx::array& slots);

// Copies whole pages, `from` [N] to `to` [N] int32, in the order of the list and without coding
// anew; aliases as paged_append() does. Pages outside the pool are skipped.
KvPages copy_pages(const KvPages& pages, const mx::array& from, const mx::array& to);

// Whether paged_append() to such pages is the own primitive on the default device. Tries it where
// that is not certain: on Metal, once for each kind of pages.
bool appends_in_place(const KvPages& pages);

namespace reference {
KvPages paged_append(const KvPages& pages, const mx::array& k, const mx::array& v,
                     const mx::array& slots);
// No page is copied to twice, or copied from after it was copied to.
KvPages copy_pages(const KvPages& pages, const mx::array& from, const mx::array& to);

// Heads [.., D] f32 to [.., bytes of a head] uint8 and back; the same bytes as the own primitive.
mx::array encode_heads(const mx::array& values, const CodedHeads& coded);
mx::array decode_heads(const mx::array& rows, const CodedHeads& coded);
// Heads [.., D] f32 as keys are rotated before they are coded, or queries before they meet them.
mx::array rotate_heads(const mx::array& values, Rotated what);
}  // namespace reference
}  // namespace pome::kernels
