#pragma once

#include <memory>

#include "layers/gated_mlp.h"
#include "layers/rms_norm.h"
#include "layers/rope_attention.h"
#include "models/llm/decoder_config.h"
#include "models/llm/load_model.h"

namespace pome::models {

// Gemma 3 text decoder, arXiv 2503.19786: windows with a global layer now and then, norms around
// each block. Reference: transformers Gemma3ForCausalLM.
struct Gemma3Layer {
  layers::RmsNorm input_layernorm;
  layers::RopeAttention self_attn;
  layers::RmsNorm post_attention_layernorm;
  layers::RmsNorm pre_feedforward_layernorm;
  layers::GatedMlp mlp;
  layers::RmsNorm post_feedforward_layernorm;

  Gemma3Layer(const tensor::Weights& w, const DecoderConfig& c, int32_t index);
  // h [T, H] → [T, H].
  mx::array operator()(const mx::array& h, const layers::Forward& f) const;
};

// Text checkpoints, and the text part of multimodal ones. Throws LoadError.
std::unique_ptr<LanguageModel> load_gemma3(const tensor::Checkpoint& checkpoint,
                                           const LoadOptions& options);

}  // namespace pome::models
