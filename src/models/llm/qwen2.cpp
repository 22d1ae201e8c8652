#include "models/llm/qwen2.h"

#include "models/llm/causal_decoder.h"
#include "models/llm/gguf_names.h"

namespace pome::models {
namespace {

DecoderConfig read_config(const tensor::Checkpoint& checkpoint) {
  const tensor::HfConfig config = open_config(checkpoint);
  require_value(config, "hidden_act", {"silu"});
  refuse_features(config, {"use_sliding_window"});
  require_full_attention(config);
  DecoderConfig c = read_decoder_config(checkpoint, config, /*tied=*/false);
  c.attention.bias = true;
  c.attention.rope = read_rope(config, 1e6f);
  return c;
}

}  // namespace

Qwen2Layer::Qwen2Layer(const tensor::Weights& w, const DecoderConfig& c, int32_t index)
    : input_layernorm(w / "input_layernorm", c.hidden_size, c.rms_norm_eps),
      self_attn(w / "self_attn", c.attention, index),
      post_attention_layernorm(w / "post_attention_layernorm", c.hidden_size, c.rms_norm_eps),
      mlp(w / "mlp", c.hidden_size, c.intermediate_size, layers::Activation::silu) {}

mx::array Qwen2Layer::operator()(const mx::array& h, const layers::Forward& f) const {
  const mx::array attended = self_attn(input_layernorm(h, f), f);
  const auto [sum, normed] = post_attention_layernorm.after_sum(h, attended, f);
  return sum + mlp(normed, f);
}

std::unique_ptr<LanguageModel> load_qwen2(const tensor::Checkpoint& checkpoint,
                                          const LoadOptions& options) {
  const DecoderConfig config = read_config(checkpoint);
  const tensor::Weights weights(checkpoint, decoder_weight_map(checkpoint), options.dtype);
  return std::make_unique<CausalDecoder<Qwen2Layer>>(weights, config,
                                                     decoder_info(checkpoint, config, "qwen2"));
}

}  // namespace pome::models
