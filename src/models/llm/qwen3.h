#pragma once

#include <memory>

#include "layers/gated_mlp.h"
#include "layers/rms_norm.h"
#include "layers/rope_attention.h"
#include "models/llm/decoder_config.h"
#include "models/llm/load_model.h"

namespace pome::models {

// Qwen3 dense decoder (0.6B to 32B), arXiv 2505.09388. Reference: transformers Qwen3ForCausalLM.
struct Qwen3Layer {
  layers::RmsNorm input_layernorm;
  layers::RopeAttention self_attn;
  layers::RmsNorm post_attention_layernorm;
  layers::GatedMlp mlp;

  Qwen3Layer(const tensor::Weights& w, const DecoderConfig& c, int32_t index);
  // h [T, H] → [T, H].
  mx::array operator()(const mx::array& h, const layers::Forward& f) const;
};

// Throws LoadError.
std::unique_ptr<LanguageModel> load_qwen3(const tensor::Checkpoint& checkpoint,
                                          const LoadOptions& options);

}  // namespace pome::models
