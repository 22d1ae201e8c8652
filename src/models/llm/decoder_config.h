#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "kvcache/cache_spec.h"
#include "kvcache/kv_format.h"
#include "layers/rope_attention.h"
#include "models/language_model.h"
#include "tensor/checkpoint/hf_config.h"
#include "tensor/weights.h"

namespace pome::models {

// What dense decoders share, under config.json's names.
struct DecoderConfig {
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t vocab_size = 0;
  int32_t max_position_embeddings = 0;
  float rms_norm_eps = 1e-6f;
  bool tie_word_embeddings = false;
  float embedding_scale = 1.0f;  // embeddings are multiplied by it
  layers::AttentionConfig attention;
  std::vector<int32_t> windows;                   // of each layer; 0: attends to everything
  std::optional<layers::RopeConfig> window_rope;  // of layers with a window, where theirs differs

  int32_t window_of(int32_t layer) const { return windows[static_cast<size_t>(layer)]; }
  layers::AttentionConfig attention_of(int32_t layer) const;
};

// Keys of config.json, or of GGUF metadata under config.json's names. `defaults`: what a
// config.json of this model may leave out.
tensor::HfConfig open_config(const tensor::Checkpoint& checkpoint, json::object defaults = {});

// Reads and checks the shared keys; every layer attends to everything. `tied` is what an HF config
// without tie_word_embeddings means; a GGUF file ties when it has no head. Throws LoadError.
DecoderConfig read_decoder_config(const tensor::Checkpoint& checkpoint,
                                  const tensor::HfConfig& config, bool tied);

// Rope base and scaling: rope_parameters, else rope_theta and rope_scaling, else the GGUF keys.
// Throws LoadError for a scaling that is not implemented.
layers::RopeConfig read_rope(const tensor::HfConfig& config, float default_theta);
// An HF object that holds a base and a scaling ("rope_parameters" or one of its entries).
layers::RopeConfig read_rope_parameters(const tensor::HfConfig& parameters, float default_theta);

// Throws LoadError unless the key is absent or has one of these values.
void require_value(const tensor::HfConfig& config, std::string_view key,
                   std::initializer_list<std::string_view> supported);
// Throws LoadError if a key is there and true, a number other than 0, or a list that is not empty.
void refuse_features(const tensor::HfConfig& config, std::initializer_list<std::string_view> keys);
// Throws LoadError if layer_types lists anything but full attention.
void require_full_attention(const tensor::HfConfig& config);
// The window of each layer, 0 for full attention: layer_types where the config lists them, else
// every sliding_window_pattern-th layer (`pattern` where that is absent) is full.
std::vector<int32_t> read_windows(const tensor::HfConfig& config, int32_t layers, int32_t pattern);

// Rope bases where a config gives none.
struct WindowThetas {
  float full = 10000.0f;
  float window = 10000.0f;
};
// Different ropes of layers with and without a window: the entries of rope_parameters, else
// read_rope() and rope_local_base_freq. Fills attention.rope and window_rope.
void read_window_ropes(const tensor::HfConfig& config, WindowThetas thetas, DecoderConfig& c);

// One cache group for each window in use, the full one first.
kvcache::CacheSpec decoder_cache_spec(const DecoderConfig& config, int32_t page_tokens,
                                      const kvcache::KvFormat& format);

LanguageModelInfo decoder_info(const tensor::Checkpoint& checkpoint, const DecoderConfig& config,
                               std::string_view architecture);

}  // namespace pome::models
