#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/paged_attention/paged_attention.h"
#include "kernels/rope/rope.h"
#include "kvcache/cache_spec.h"
#include "kvcache/kv_format.h"
#include "kvcache/page_run.h"
#include "tensor/mlx.h"

namespace pome::kvpool {

// How many pages each cache group gets, the sink page 0 included, and how a number is stored.
struct KvPoolOptions {
  std::vector<int32_t> group_pages;
  kvcache::KvFormat format = {};
};

// The tensors behind the pages and the only place where keys and values live. Page 0 of every group
// is a sink for padding. On the CPU the memory is reserved at construction, reads as zero and is
// committed page by page as it is written, so an idle pool costs nothing. Belongs to the engine's
// thread.
//
// Order: append() replaces the layer's handle by the append's output, and attention() reads that
// handle, so a step's reads follow its writes. Whoever evaluates a step evaluates handles() with
// it: a prefill chunk without outputs leaves appends that no logits depend on.
class KvPool {
 public:
  // The groups must be `full` or `window`, and group_pages has one entry (at least 2 pages) for
  // each of them.
  KvPool(const kvcache::CacheSpec& spec, const KvPoolOptions& options);

  // Stores k and v [T, kv_heads, head_dim] of a model layer at slots [T] = page · page_tokens +
  // offset.
  void append(int32_t layer, const mx::array& k, const mx::array& v, const mx::array& slots);
  // qkv [T, (heads + 2 kv_heads) · head_dim]: norms (if any) and rotation of q and k, k and v to
  // the slots; returns q [T, heads, head_dim]. One pass over what a fused projection gives.
  mx::array rope_append(int32_t layer, const mx::array& qkv, const mx::array& rope_positions,
                        const mx::array& slots, const kernels::RopeOptions& rope,
                        const std::optional<kernels::HeadNorms>& norms);
  // Copies pages before the step that appends to them. Also inside a process that follows a plan
  // made elsewhere: every device can.
  void copy_pages(const std::vector<kvcache::PageCopy>& copies);
  // Attention of q [T, heads, head_dim] over the layer's pages, causal inside each row; [T, heads,
  // head_dim].
  mx::array attention(int32_t layer, const mx::array& q, const kernels::PagedRows& rows,
                      const kernels::AttentionOptions& options) const;

  // Whether appends to such pools write into the pool's own buffers on this device. If not, plain
  // operations append, and copy a layer's half of the pool while a step is in flight.
  static bool appends_in_place(const kvcache::CacheSpec& spec, const kvcache::KvFormat& format);

  // What attention takes beside its arguments and result, at most, on this device: plain operations
  // gather what is cached of so many rows.
  static int64_t attention_bytes_max(const kvcache::CacheSpec& spec, int64_t rows, int64_t tokens);

  // Which entry of CacheSpec::groups (and of Forward::groups) a model layer belongs to.
  int32_t group_of(int32_t layer) const;
  // The current arrays of all layers: evaluate them with the step that appended.
  std::vector<mx::array> handles() const;
  // One layer's pages [pages, page_tokens, kv_heads, head_dim], or coded [.., bytes of a head].
  const mx::array& k_pages(int32_t layer) const;
  const mx::array& v_pages(int32_t layer) const;

  // Address space reserved for the pages of all groups.
  int64_t bytes_reserved() const;
  const kvcache::CacheSpec& spec() const;
  int32_t pages(int32_t group) const;

 private:
  struct LayerPages {
    int32_t group = 0;
    kernels::KvPages pages;
  };
  const LayerPages& at(int32_t layer) const;

  std::vector<std::optional<LayerPages>> layers_;  // by model layer
  kvcache::CacheSpec spec_;
  KvPoolOptions options_;
  int64_t bytes_reserved_ = 0;
};

}  // namespace pome::kvpool
