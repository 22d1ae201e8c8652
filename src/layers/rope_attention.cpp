#include "layers/rope_attention.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "kvpool/kv_pool.h"

namespace pome::layers {
namespace {

Linear fused_qkv(const tensor::Weights& w, const AttentionConfig& c) {
  const std::array modules = {Projection{w / "q_proj", c.heads * c.head_dim},
                              Projection{w / "k_proj", c.kv_heads * c.head_dim},
                              Projection{w / "v_proj", c.kv_heads * c.head_dim}};
  return Linear(modules, c.hidden, {.bias = c.bias});
}

std::optional<kernels::HeadNorms> head_norms(const tensor::Weights& w, const AttentionConfig& c,
                                             bool wanted) {
  if (!wanted) {
    return std::nullopt;
  }
  return kernels::HeadNorms{(w / "q_norm").get("weight", {c.head_dim}),
                            (w / "k_norm").get("weight", {c.head_dim}), c.norm_eps};
}

}  // namespace

RopeAttention::RopeAttention(const tensor::Weights& w, const AttentionConfig& config, int32_t layer,
                             RopeAttentionOptions options)
    : qkv_proj_(fused_qkv(w, config)),
      o_proj_(w / "o_proj", config.heads * config.head_dim, config.hidden,
              {.bias = config.output_bias}),
      norms_(head_norms(w, config, options.qk_norm)),
      rope_(rope_options(config.rope, config.head_dim)),
      layer_(layer) {
  attention_.scale =
      config.scale > 0.0f ? config.scale : 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  attention_.window = options.window;
}

mx::array RopeAttention::operator()(const mx::array& x, const Forward& f) const {
  CHECK(f.pool != nullptr, "a step without a pool");
  const GroupForward& group = f.groups.at(static_cast<size_t>(f.pool->group_of(layer_)));
  const mx::array qkv = qkv_proj_(x, f);
  const mx::array q = f.pool->rope_append(layer_, qkv, mx::flatten(f.rope_positions), group.slots,
                                          rope_, norms_);  // [T, Hq, D]
  const kernels::PagedRows rows{.page_table = group.page_table,
                                .row_offsets = f.row_offsets,
                                .kv_lengths = f.kv_lengths,
                                .row_tokens = f.row_tokens};
  const mx::array attended = f.pool->attention(layer_, q, rows, attention_);
  return o_proj_(mx::flatten(attended, 1, 2), f);
}

}  // namespace pome::layers
