#pragma once

#include <span>
#include <string>
#include <string_view>

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

// "model.layers.3.mlp.up_proj.weight" to "blk.3.ffn_up.weight", the embeddings, final norm and head
// to token_embd, output_norm and output. Other names stay as they are.
std::string gguf_tensor_name(std::string_view name, std::span<const GgufModule> modules);

}  // namespace pome::models
