#include "models/llm/llama.h"

#include "models/llm/causal_decoder.h"
#include "models/llm/gguf_names.h"

namespace pome::models {
namespace {

DecoderConfig read_config(const tensor::Checkpoint& checkpoint) {
  const tensor::HfConfig config = open_config(checkpoint);
  require_value(config, "hidden_act", {"silu"});
  refuse_features(config, {"mlp_bias"});
  DecoderConfig c = read_decoder_config(checkpoint, config, /*tied=*/false);
  c.attention.bias = c.attention.output_bias = config.get_bool_or("attention_bias", false);
  c.attention.rope = read_rope(config, 10000.0f);
  return c;
}

tensor::WeightMap weight_map(const tensor::Checkpoint& checkpoint, int32_t head_dim) {
  tensor::WeightMap map = decoder_weight_map(checkpoint);
  if (checkpoint.format() == tensor::CheckpointFormat::gguf) {
    map.row_order = [head_dim](std::string_view name, const std::vector<int64_t>& shape) {
      return half_rotation_order(name, shape, head_dim);
    };
  }
  return map;
}

// llama3 scaling comes as one divisor for each frequency.
std::vector<float> frequency_divisors(const tensor::Weights& w, int32_t head_dim) {
  if (!w.has("weight")) {
    return {};
  }
  mx::array divisors = mx::astype(w.get_stored("weight", {head_dim / 2}), mx::float32);
  divisors.eval();  // once, while loading
  const float* values = divisors.data<float>();
  std::vector<float> out(values, values + head_dim / 2);
  for (float value : out) {
    if (!(value > 0.0f)) {
      throw tensor::LoadError(
          fmt::format("[{}] expected positive numbers, got {}", w.path(), value));
    }
  }
  return out;
}

void ignore_rope_buffers(const tensor::Weights& w, int32_t layers) {
  for (int32_t index = 0; index < layers; ++index) {
    const tensor::Weights rotary = w / "model" / "layers" / index / "self_attn" / "rotary_emb";
    if (rotary.has("inv_freq")) {
      rotary.ignore("inv_freq");
    }
  }
}

}  // namespace

LlamaLayer::LlamaLayer(const tensor::Weights& w, const DecoderConfig& c, int32_t index)
    : input_layernorm(w / "input_layernorm", c.hidden_size, c.rms_norm_eps),
      self_attn(w / "self_attn", c.attention, index),
      post_attention_layernorm(w / "post_attention_layernorm", c.hidden_size, c.rms_norm_eps),
      mlp(w / "mlp", c.hidden_size, c.intermediate_size, layers::Activation::silu) {}

mx::array LlamaLayer::operator()(const mx::array& h, const layers::Forward& f) const {
  const mx::array attended = self_attn(input_layernorm(h, f), f);
  const auto [sum, normed] = post_attention_layernorm.after_sum(h, attended, f);
  return sum + mlp(normed, f);
}

std::unique_ptr<LanguageModel> load_llama(const tensor::Checkpoint& checkpoint,
                                          const LoadOptions& options) {
  DecoderConfig config = read_config(checkpoint);
  const int32_t head_dim = config.attention.head_dim;
  const tensor::Weights weights(checkpoint, weight_map(checkpoint, head_dim), options.dtype);
  config.attention.rope.frequency_divisors = frequency_divisors(weights / "rope_freqs", head_dim);
  ignore_rope_buffers(weights, config.num_hidden_layers);
  return std::make_unique<CausalDecoder<LlamaLayer>>(weights, config,
                                                     decoder_info(checkpoint, config, "llama"));
}

}  // namespace pome::models
