#pragma once

#include <memory>

#include "layers/gated_mlp.h"
#include "layers/rms_norm.h"
#include "layers/rope_attention.h"
#include "models/llm/decoder_config.h"
#include "models/llm/load_model.h"

namespace pome::models {

// Qwen2 and Qwen2.5 dense decoder (0.5B to 72B), arXiv 2407.10671. Reference: transformers
// Qwen2ForCausalLM.
struct Qwen2Layer {
  layers::RmsNorm input_layernorm;
  layers::RopeAttention self_attn;
  layers::RmsNorm post_attention_layernorm;
  layers::GatedMlp mlp;

  Qwen2Layer(const tensor::Weights& w, const DecoderConfig& c, int32_t index);
  // h [T, H] → [T, H].
  mx::array operator()(const mx::array& h, const layers::Forward& f) const;
};

// Throws LoadError.
std::unique_ptr<LanguageModel> load_qwen2(const tensor::Checkpoint& checkpoint,
                                          const LoadOptions& options);

}  // namespace pome::models
