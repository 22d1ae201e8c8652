#pragma once

#include <memory>

#include "layers/gated_mlp.h"
#include "layers/rms_norm.h"
#include "layers/rope_attention.h"
#include "models/llm/decoder_config.h"
#include "models/llm/load_model.h"

namespace pome::models {

// Llama dense decoder (1 to 3.3, and what shares its architecture), arXiv 2407.21783. Reference:
// transformers LlamaForCausalLM.
struct LlamaLayer {
  layers::RmsNorm input_layernorm;
  layers::RopeAttention self_attn;
  layers::RmsNorm post_attention_layernorm;
  layers::GatedMlp mlp;

  LlamaLayer(const tensor::Weights& w, const DecoderConfig& c, int32_t index);
  // h [T, H] → [T, H].
  mx::array operator()(const mx::array& h, const layers::Forward& f) const;
};

// Throws LoadError.
std::unique_ptr<LanguageModel> load_llama(const tensor::Checkpoint& checkpoint,
                                          const LoadOptions& options);

}  // namespace pome::models
