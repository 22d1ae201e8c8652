#pragma once

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "layers/embedding.h"
#include "layers/linear.h"
#include "layers/rms_norm.h"
#include "models/language_model.h"
#include "models/llm/decoder_config.h"
#include "tensor/checkpoint/load_error.h"
#include "tensor/weights.h"

namespace pome::models {

// The frame that decoders share: embeddings, a stack of layers, a norm and the output head. `Layer`
// is constructed as (weights, config, index) and called as (h [T, H], step) → [T, H].
template <typename Layer, typename Config = DecoderConfig>
class CausalDecoder final : public LanguageModel {
 public:
  // Throws LoadError when a tensor is missing, of another shape or left over.
  CausalDecoder(const tensor::Weights& w, Config config, LanguageModelInfo info)
      : config_(std::move(config)),
        info_(std::move(info)),
        embed_tokens_(w / "model" / "embed_tokens", config_.vocab_size, config_.hidden_size),
        norm_(w / "model" / "norm", config_.hidden_size, config_.rms_norm_eps),
        lm_head_(head(w / "lm_head")) {
    layers_.reserve(static_cast<size_t>(config_.num_hidden_layers));
    for (int32_t index = 0; index < config_.num_hidden_layers; ++index) {
      layers_.emplace_back(w / "model" / "layers" / index, config_, index);
    }
    if (const Status status = w.check_all_read(); !status) {
      throw tensor::LoadError(status.error().message);
    }
  }

  const LanguageModelInfo& info() const override { return info_; }

  kvcache::CacheSpec cache_spec(int32_t page_tokens,
                                const kvcache::KvFormat& format) const override {
    return decoder_cache_spec(config_, page_tokens, format);
  }

  StepOutput forward(const layers::Forward& f) const override {
    mx::array h = embed_tokens_(f.tokens, f);  // [T, H]
    if (config_.embedding_scale != 1.0f) {
      h = h * mx::array(config_.embedding_scale, h.dtype());
    }
    see(f, "embeddings", h);
    for (size_t index = 0; index < layers_.size(); ++index) {
      h = layers_[index](h, f);
      if (f.trace) {
        see(f, fmt::format("layers.{}", index), h);
      }
    }
    if (f.output_count == 0) {
      return {mx::zeros({0, config_.vocab_size}), mx::zeros({0, config_.hidden_size}, h.dtype())};
    }
    if (f.output_count < f.token_count) {
      h = mx::take(h, f.output_tokens, 0);  // [O, H]
    }
    h = norm_(h, f);
    see(f, "norm", h);
    const mx::array logits = mx::astype(lm_head_(h, f), mx::float32);  // [O, V]
    see(f, "logits", logits);
    return {logits, h};
  }

 private:
  static void see(const layers::Forward& f, std::string_view name, const mx::array& x) {
    if (f.trace) {
      f.trace(name, x);
    }
  }

  layers::Linear head(const tensor::Weights& w) const {
    if (!config_.tie_word_embeddings) {
      return layers::Linear(w, config_.hidden_size, config_.vocab_size);
    }
    if (w.has("weight")) {
      w.ignore("weight");  // some files repeat the tied matrix
    }
    return embed_tokens_.tied_head();
  }

  Config config_;
  LanguageModelInfo info_;
  layers::Embedding embed_tokens_;
  std::vector<Layer> layers_;
  layers::RmsNorm norm_;
  layers::Linear lm_head_;
};

}  // namespace pome::models
