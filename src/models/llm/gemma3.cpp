#include "models/llm/gemma3.h"

#include <cmath>

#include "models/llm/causal_decoder.h"
#include "models/llm/gguf_names.h"
#include "models/llm/text_part.h"

namespace pome::models {
namespace {

constexpr int32_t kPattern = 6;  // every sixth layer is global
constexpr WindowThetas kThetas = {.full = 1000000.0f, .window = 10000.0f};

// The text_config of a multimodal folder leaves out what is as in the reference's configuration.
json::object defaults() {
  return {{"vocab_size", 262208},  {"num_attention_heads", 8},          {"num_key_value_heads", 4},
          {"head_dim", 256},       {"max_position_embeddings", 131072}, {"rms_norm_eps", 1e-6},
          {"sliding_window", 4096}};
}

DecoderConfig read_config(const tensor::Checkpoint& checkpoint) {
  const tensor::HfConfig config = open_config(checkpoint, defaults());
  require_value(config, "hidden_activation", {"gelu_pytorch_tanh"});
  refuse_features(config, {"attention_bias", "use_bidirectional_attention",
                           "final_logit_softcapping", "attn_logit_softcapping"});
  DecoderConfig c = read_decoder_config(checkpoint, config, /*tied=*/true);
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden_size));
  // GGUF has no key for the scalar; the 62-layer model is the one where it is not the head size.
  const bool by_hidden = config.from_gguf() && c.num_hidden_layers == 62;
  const int32_t scalar = by_hidden ? c.hidden_size / c.attention.heads : c.attention.head_dim;
  c.attention.scale = 1.0f / std::sqrt(config.get_float_or(
                                 "query_pre_attn_scalar", static_cast<float>(scalar), {1e-3, 1e6}));
  c.windows = read_windows(config, c.num_hidden_layers, kPattern);
  read_window_ropes(config, kThetas, c);
  return c;
}

// Norms multiply by 1 + w. GGUF files hold 1 + w, Hugging Face's hold w.
tensor::WeightMap weight_map(const tensor::Checkpoint& checkpoint) {
  tensor::WeightMap map = decoder_weight_map(checkpoint, kSandwichNormModules);
  if (checkpoint.format() == tensor::CheckpointFormat::hf_folder) {
    map.file_name = text_part_names(checkpoint);
    map.offset = [](std::string_view name) { return name.ends_with("norm.weight") ? 1.0f : 0.0f; };
  }
  return map;
}

}  // namespace

Gemma3Layer::Gemma3Layer(const tensor::Weights& w, const DecoderConfig& c, int32_t index)
    : input_layernorm(w / "input_layernorm", c.hidden_size, c.rms_norm_eps),
      self_attn(w / "self_attn", c.attention_of(index), index,
                {.qk_norm = true, .window = c.window_of(index)}),
      post_attention_layernorm(w / "post_attention_layernorm", c.hidden_size, c.rms_norm_eps),
      pre_feedforward_layernorm(w / "pre_feedforward_layernorm", c.hidden_size, c.rms_norm_eps),
      mlp(w / "mlp", c.hidden_size, c.intermediate_size, layers::Activation::gelu_tanh),
      post_feedforward_layernorm(w / "post_feedforward_layernorm", c.hidden_size, c.rms_norm_eps) {}

mx::array Gemma3Layer::operator()(const mx::array& h, const layers::Forward& f) const {
  const mx::array attended = self_attn(input_layernorm(h, f), f);
  const auto [sum, normed] =
      pre_feedforward_layernorm.after_sum(h, post_attention_layernorm(attended, f), f);
  return sum + post_feedforward_layernorm(mlp(normed, f), f);
}

std::unique_ptr<LanguageModel> load_gemma3(const tensor::Checkpoint& checkpoint,
                                           const LoadOptions& options) {
  const DecoderConfig config = read_config(checkpoint);
  const tensor::Weights weights(checkpoint, weight_map(checkpoint), options.dtype);
  LanguageModelInfo info = decoder_info(checkpoint, config, "gemma3_text");
  info.weight_bytes -= skip_other_parts(weights, {"vision_tower", "multi_modal_projector"});
  return std::make_unique<CausalDecoder<Gemma3Layer>>(weights, config, std::move(info));
}

}  // namespace pome::models
