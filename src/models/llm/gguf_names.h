#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/weights.h"

namespace pome::models {

// A module inside a decoder layer, under our name and under GGUF's.
struct GgufModule {
  std::string_view ours;
  std::string_view gguf;
};

// What dense decoders with a norm before attention and one before the MLP have.
inline constexpr GgufModule kPreNormModules[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

// What a decoder whose blocks are also followed by norms calls them.
inline constexpr GgufModule kSandwichNormModules[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

// "model.layers.3.mlp.up_proj.weight" to "blk.3.ffn_up.weight", the embeddings, final norm and head
// to token_embd, output_norm and output. `modules` go before kPreNormModules. Other names stay as
// they are.
std::string gguf_tensor_name(std::string_view name, std::span<const GgufModule> modules = {});
// How a decoder with these modules reads a checkpoint: those names from a GGUF file, its own from a
// folder. `modules` outlive the map.
tensor::WeightMap decoder_weight_map(const tensor::Checkpoint& checkpoint,
                                     std::span<const GgufModule> modules = {});

// Files whose rotation turns neighbouring pairs interleave the q and k rows of each head's halves.
// For these tensors: the file's row of each of our rows; nothing for others.
std::optional<std::vector<int32_t>> half_rotation_order(std::string_view name,
                                                        const std::vector<int64_t>& shape,
                                                        int32_t head_dim);

}  // namespace pome::models
