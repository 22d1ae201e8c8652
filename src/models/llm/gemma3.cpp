#include "models/llm/gemma3.h"

#include <cmath>

#include "models/llm/causal_decoder.h"
#include "models/llm/gguf_names.h"

namespace pome::models {
namespace {

using tensor::HfConfig;

constexpr float kLocalTheta = 10000.0f;
constexpr float kGlobalTheta = 1000000.0f;
constexpr int32_t kPattern = 6;  // every sixth layer is global

void read_ropes(const HfConfig& config, Gemma3Config& c) {
  const std::optional<HfConfig> parameters = config.nested("rope_parameters");
  if (!parameters) {
    c.attention.rope = read_rope(config, kGlobalTheta);
    c.local_rope.theta = config.get_float_or("rope_local_base_freq", kLocalTheta, {1.0, 1e12});
    return;
  }
  c.attention.rope.theta = kGlobalTheta;
  c.local_rope.theta = kLocalTheta;
  if (const auto full = parameters->nested("full_attention")) {
    c.attention.rope = read_rope_parameters(*full, kGlobalTheta);
  }
  if (const auto local = parameters->nested("sliding_attention")) {
    c.local_rope = read_rope_parameters(*local, kLocalTheta);
  }
}

Gemma3Config read_config(const tensor::Checkpoint& checkpoint) {
  const HfConfig config = open_config(checkpoint);
  require_value(config, "hidden_activation", {"gelu_pytorch_tanh"});
  refuse_features(config, {"attention_bias", "use_bidirectional_attention",
                           "final_logit_softcapping", "attn_logit_softcapping"});
  Gemma3Config c{read_decoder_config(checkpoint, config, /*tied=*/true), {}};
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden_size));
  // GGUF has no key for the scalar; the 62-layer model is the one where it is not the head size.
  const bool by_hidden = config.from_gguf() && c.num_hidden_layers == 62;
  const int32_t scalar = by_hidden ? c.hidden_size / c.attention.heads : c.attention.head_dim;
  c.attention.scale = 1.0f / std::sqrt(config.get_float_or(
                                 "query_pre_attn_scalar", static_cast<float>(scalar), {1e-3, 1e6}));
  c.windows = read_windows(config, c.num_hidden_layers, kPattern);
  read_ropes(config, c);
  return c;
}

// Norms multiply by 1 + w. GGUF files hold 1 + w, Hugging Face's hold w.
tensor::WeightMap weight_map(const tensor::Checkpoint& checkpoint) {
  tensor::WeightMap map;
  if (checkpoint.format() == tensor::CheckpointFormat::gguf) {
    map.file_name = [](std::string_view name) {
      return gguf_tensor_name(name, kSandwichNormModules);
    };
  } else {
    map.offset = [](std::string_view name) {
      return name.find("norm.weight") != std::string_view::npos ? 1.0f : 0.0f;
    };
  }
  return map;
}

layers::AttentionConfig layer_attention(const Gemma3Config& c, int32_t window) {
  layers::AttentionConfig attention = c.attention;
  if (window > 0) {
    attention.rope = c.local_rope;
  }
  return attention;
}

}  // namespace

Gemma3Layer::Gemma3Layer(const tensor::Weights& w, const Gemma3Config& c, int32_t index)
    : input_layernorm(w / "input_layernorm", c.hidden_size, c.rms_norm_eps),
      self_attn(w / "self_attn", layer_attention(c, c.windows[static_cast<size_t>(index)]), index,
                {.qk_norm = true, .window = c.windows[static_cast<size_t>(index)]}),
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
  const Gemma3Config config = read_config(checkpoint);
  const tensor::Weights weights(checkpoint, weight_map(checkpoint), options.dtype);
  return std::make_unique<CausalDecoder<Gemma3Layer, Gemma3Config>>(
      weights, config, decoder_info(checkpoint, config, "gemma3_text"));
}

}  // namespace pome::models
