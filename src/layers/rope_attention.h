#pragma once

#include <cstdint>
#include <optional>

#include "kernels/paged_attention/paged_attention.h"
#include "layers/forward.h"
#include "layers/linear.h"
#include "layers/rope.h"
#include "tensor/mlx.h"
#include "tensor/weights.h"

namespace pome::layers {

struct AttentionConfig {
  int32_t hidden = 0;    // H
  int32_t heads = 0;     // Hq, a multiple of kv_heads
  int32_t kv_heads = 0;  // Hkv
  int32_t head_dim = 0;  // D
  float scale = 0.0f;    // of q · k; 0: 1 / sqrt(D)
  bool bias = false;     // q, k and v have biases
  bool output_bias = false;
  float norm_eps = 1e-6f;  // of the q and k norms
  RopeConfig rope;
};

struct RopeAttentionOptions {
  bool qk_norm = false;  // RMS norms over D of q and k before the rotation
  int32_t window = 0;    // a token sees the last `window` tokens, itself included; 0: all
};

// Grouped-query attention with rotary positions. Keys and values go to the pool behind Forward, and
// all reading is from there. Members of the checkpoint: q_proj, k_proj, v_proj, o_proj, and with
// qk_norm q_norm, k_norm.
class RopeAttention {
 public:
  // `layer` is the model layer whose pages it uses.
  RopeAttention(const tensor::Weights& w, const AttentionConfig& config, int32_t layer,
                RopeAttentionOptions options = {});

  // x [T, H] → [T, H].
  mx::array operator()(const mx::array& x, const Forward& f) const;

 private:
  Linear qkv_proj_;  // q, k and v of a token side by side: [T, (Hq + 2 Hkv) · D]
  Linear o_proj_;
  std::optional<kernels::HeadNorms> norms_;
  kernels::RopeOptions rope_;
  kernels::AttentionOptions attention_;
  int32_t layer_;
};

}  // namespace pome::layers
