#include "models/llm/decoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tensor/checkpoint/load_error.h"

namespace pome::models {
namespace {

using tensor::HfConfig;
using tensor::LoadError;

constexpr tensor::GgufName kGgufNames[] = {
    {"rope_scaling_type", "{arch}.rope.scaling.type"},
    {"rope_scaling_factor", "{arch}.rope.scaling.factor"},
    {"rope_scaling_attn_factor", "{arch}.rope.scaling.attn_factor"},
    {"rope_scaling_beta_fast", "{arch}.rope.scaling.yarn_beta_fast"},
    {"rope_scaling_beta_slow", "{arch}.rope.scaling.yarn_beta_slow"},
    {"rope_scaling_original_context", "{arch}.rope.scaling.original_context_length"},
    {"rope_dimension_count", "{arch}.rope.dimension_count"},
    {"value_length", "{arch}.attention.value_length"},
    {"expert_count", "{arch}.expert_count"},
    {"sliding_window_pattern", "{arch}.attention.sliding_window_pattern"},
    {"rope_local_base_freq", "{arch}.rope.freq_base_swa"},
    {"final_logit_softcapping", "{arch}.final_logit_softcapping"},
    {"attn_logit_softcapping", "{arch}.attn_logit_softcapping"},
};

layers::AttentionConfig read_attention(const HfConfig& config, int32_t hidden, float eps) {
  layers::AttentionConfig a;
  a.hidden = hidden;
  a.norm_eps = eps;
  a.heads = config.get_int("num_attention_heads", {1, 1024});
  a.kv_heads = config.get_int_or("num_key_value_heads", a.heads, {1, 1024});
  a.head_dim = config.get_int_or("head_dim", hidden / a.heads, {1, 4096});
  if (a.heads % a.kv_heads != 0) {
    throw LoadError(fmt::format(
        "[config] expected num_attention_heads to be a multiple of num_key_value_heads, got {} "
        "and {}",
        a.heads, a.kv_heads));
  }
  if (a.head_dim % 8 != 0 || a.head_dim > 256) {
    throw LoadError(
        fmt::format("[config] expected a head_dim that is a multiple of 8 and at most 256, got {}",
                    a.head_dim));
  }
  return a;
}

void check_gguf_heads(const HfConfig& config, int32_t head_dim) {
  for (std::string_view key : {"rope_dimension_count", "value_length"}) {
    if (config.from_gguf() && config.get_int_or(key, head_dim) != head_dim) {
      throw LoadError(
          fmt::format("[config] {} {} differs from the head size {}, which is not "
                      "supported",
                      key, config.get_int(key), head_dim));
    }
  }
}

[[noreturn]] void refuse_rope(std::string_view type) {
  throw LoadError(fmt::format(
      "[config] rope scaling \"{}\" is not supported; supported: default, linear, llama3, yarn",
      type));
}

void require_layer_type(std::string_view type, std::initializer_list<std::string_view> supported) {
  if (std::find(supported.begin(), supported.end(), type) == supported.end()) {
    throw LoadError(fmt::format("[config] \"{}\" in layer_types is not supported; supported: {}",
                                type, fmt::join(supported, ", ")));
  }
}

layers::RopeScaling read_yarn(const HfConfig& p) {
  if (p.has("mscale") || p.has("mscale_all_dim") || !p.get_bool_or("truncate", true)) {
    throw LoadError(
        "[config] yarn rope scaling with mscale, mscale_all_dim or truncate = false is not "
        "supported");
  }
  layers::RopeScaling s;
  s.kind = layers::RopeKind::yarn;
  s.factor = p.get_float("factor", {1.0, 1e6});
  s.original_context = p.get_int("original_max_position_embeddings");
  s.beta_fast = p.get_float_or("beta_fast", 32.0f, {1e-3, 1e6});
  s.beta_slow = p.get_float_or("beta_slow", 1.0f, {1e-3, 1e6});
  s.attention_factor = p.get_float_or("attention_factor", 0.0f, {0.0, 1e3});
  return s;
}

layers::RopeScaling read_scaling(const HfConfig& p) {
  const std::string type =
      p.has("rope_type") ? p.get_string("rope_type") : p.get_string_or("type", "default");
  layers::RopeScaling s;
  if (type == "default") {
    return s;
  }
  if (type == "yarn") {
    return read_yarn(p);
  }
  s.factor = p.get_float("factor", {1e-3, 1e6});
  if (type == "linear") {
    s.kind = layers::RopeKind::linear;
    return s;
  }
  if (type != "llama3") {
    refuse_rope(type);
  }
  s.kind = layers::RopeKind::wavelength;
  s.original_context = p.get_int("original_max_position_embeddings");
  s.low_freq_factor = p.get_float("low_freq_factor", {1e-3, 1e6});
  s.high_freq_factor = p.get_float("high_freq_factor", {1e-3, 1e6});
  if (s.high_freq_factor <= s.low_freq_factor) {
    throw LoadError("[config] expected high_freq_factor to be larger than low_freq_factor");
  }
  return s;
}

layers::RopeConfig read_gguf_rope(const HfConfig& config, float default_theta) {
  layers::RopeConfig rope;
  rope.theta = config.get_float_or("rope_theta", default_theta, {1.0, 1e12});
  const std::string type = config.get_string_or("rope_scaling_type", "none");
  layers::RopeScaling& s = rope.scaling;
  if (type == "none") {
    return rope;
  }
  s.factor = config.get_float("rope_scaling_factor", {1e-3, 1e6});
  if (type == "linear") {
    s.kind = layers::RopeKind::linear;
    return rope;
  }
  if (type != "yarn") {
    refuse_rope(type);
  }
  s.kind = layers::RopeKind::yarn;
  s.original_context = config.get_int("rope_scaling_original_context");
  s.beta_fast = config.get_float_or("rope_scaling_beta_fast", 32.0f, {1e-3, 1e6});
  s.beta_slow = config.get_float_or("rope_scaling_beta_slow", 1.0f, {1e-3, 1e6});
  require_value(config, "rope_scaling_attn_factor", {"1", "1.0", "1E0", "1e0"});
  return rope;
}

// The encoding that most weights have, as a person would call the file.
std::string format_name(const tensor::Checkpoint& checkpoint) {
  std::map<tensor::Encoding, int64_t> bytes;
  for (const tensor::FileTensor& tensor : checkpoint.tensors()) {
    if (tensor.shape.size() > 1) {
      bytes[tensor.encoding] += static_cast<int64_t>(tensor.bytes.size());
    }
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool gguf = checkpoint.format() == tensor::CheckpointFormat::gguf;
  const std::string container = gguf ? "GGUF" : "safetensors";
  if (most == bytes.end()) {
    return container;
  }
  if (!gguf && most->first == tensor::Encoding::u32) {
    const tensor::Weights root(checkpoint, {}, mx::float32);
    for (const tensor::FileTensor& tensor : checkpoint.tensors()) {
      const std::string_view name = tensor.name;
      if (tensor.encoding == tensor::Encoding::u32 && name.size() > 7) {
        const auto setting = (root / name.substr(0, name.size() - 7)).affine_setting();
        return setting ? fmt::format("MLX {}-bit", setting->bits) : container;
      }
    }
  }
  return fmt::format("{} {}", container, tensor::encoding_name(most->first));
}

}  // namespace

HfConfig open_config(const tensor::Checkpoint& checkpoint, json::object defaults) {
  return HfConfig(checkpoint, {std::begin(kGgufNames), std::end(kGgufNames)}, std::move(defaults));
}

layers::AttentionConfig DecoderConfig::attention_of(int32_t layer) const {
  layers::AttentionConfig out = attention;
  if (window_of(layer) > 0) {
    out.rope = window_rope.value_or(attention.rope);
  }
  return out;
}

DecoderConfig read_decoder_config(const tensor::Checkpoint& checkpoint, const HfConfig& config,
                                  bool tied) {
  refuse_features(config, {"expert_count"});
  DecoderConfig c;
  c.hidden_size = config.get_int("hidden_size", {1, 1 << 20});
  c.intermediate_size = config.get_int("intermediate_size", {1, 1 << 22});
  c.num_hidden_layers = config.get_int("num_hidden_layers", {1, 4096});
  c.vocab_size = config.get_int("vocab_size", {1, 1 << 24});
  c.max_position_embeddings = config.get_int("max_position_embeddings", {1, 1 << 28});
  c.rms_norm_eps = config.get_float("rms_norm_eps", {0.0, 1.0});
  c.tie_word_embeddings = config.from_gguf() ? checkpoint.find("output.weight") == nullptr
                                             : config.get_bool_or("tie_word_embeddings", tied);
  c.attention = read_attention(config, c.hidden_size, c.rms_norm_eps);
  check_gguf_heads(config, c.attention.head_dim);
  c.windows.assign(static_cast<size_t>(c.num_hidden_layers), 0);
  return c;
}

layers::RopeConfig read_rope(const HfConfig& config, float default_theta) {
  if (config.from_gguf()) {
    return read_gguf_rope(config, default_theta);
  }
  if (const std::optional<HfConfig> parameters = config.nested("rope_parameters")) {
    return read_rope_parameters(*parameters, default_theta);
  }
  layers::RopeConfig rope;
  rope.theta = config.get_float_or("rope_theta", default_theta, {1.0, 1e12});
  if (const std::optional<HfConfig> scaling = config.nested("rope_scaling")) {
    rope.scaling = read_scaling(*scaling);
  }
  return rope;
}

layers::RopeConfig read_rope_parameters(const HfConfig& parameters, float default_theta) {
  if (parameters.get_float_or("partial_rotary_factor", 1.0f) != 1.0f) {
    throw LoadError("[config] a partial_rotary_factor other than 1 is not supported");
  }
  layers::RopeConfig rope;
  rope.theta = parameters.get_float_or("rope_theta", default_theta, {1.0, 1e12});
  rope.scaling = read_scaling(parameters);
  return rope;
}

void require_value(const HfConfig& config, std::string_view key,
                   std::initializer_list<std::string_view> supported) {
  const json::value* value = config.find(key);
  if (value == nullptr) {
    return;
  }
  const std::string text =
      value->is_string() ? std::string(value->get_string()) : to_string(*value);
  if (std::find(supported.begin(), supported.end(), text) == supported.end()) {
    throw LoadError(fmt::format("[config] {} = {} is not supported; supported: {}", key, text,
                                fmt::join(supported, ", ")));
  }
}

void refuse_features(const HfConfig& config, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    const json::value* value = config.find(key);
    const bool off = value == nullptr || (value->is_bool() && !value->get_bool()) ||
                     as_double(*value) == 0.0 || (value->is_array() && value->get_array().empty());
    if (!off) {
      throw LoadError(
          fmt::format("[config] {} = {} is not supported", key, to_string(*value).substr(0, 60)));
    }
  }
}

void require_full_attention(const HfConfig& config) {
  if (config.has("layer_types")) {
    for (const std::string& type : config.get_strings("layer_types")) {
      require_layer_type(type, {"full_attention"});
    }
  }
}

std::vector<int32_t> read_windows(const HfConfig& config, int32_t layers, int32_t pattern) {
  const int32_t window = config.get_int("sliding_window");
  std::vector<int32_t> windows;
  if (!config.has("layer_types")) {
    pattern = config.get_int_or("sliding_window_pattern", pattern, {1, 4096});
    for (int32_t layer = 0; layer < layers; ++layer) {
      windows.push_back((layer + 1) % pattern == 0 ? 0 : window);
    }
    return windows;
  }
  for (const std::string& type : config.get_strings("layer_types")) {
    require_layer_type(type, {"full_attention", "sliding_attention"});
    windows.push_back(type == "sliding_attention" ? window : 0);
  }
  if (windows.size() != static_cast<size_t>(layers)) {
    throw LoadError(fmt::format("[config] expected layer_types to list {} layers, got {}", layers,
                                windows.size()));
  }
  return windows;
}

void read_window_ropes(const HfConfig& config, WindowThetas thetas, DecoderConfig& c) {
  const std::optional<HfConfig> parameters = config.nested("rope_parameters");
  layers::RopeConfig window;
  window.theta = thetas.window;
  if (!parameters) {
    c.attention.rope = read_rope(config, thetas.full);
    window.theta = config.get_float_or("rope_local_base_freq", thetas.window, {1.0, 1e12});
  } else {
    c.attention.rope.theta = thetas.full;
    if (const auto entry = parameters->nested("full_attention")) {
      c.attention.rope = read_rope_parameters(*entry, thetas.full);
    }
    if (const auto entry = parameters->nested("sliding_attention")) {
      window = read_rope_parameters(*entry, thetas.window);
    }
  }
  c.window_rope = window;
}

kvcache::CacheSpec decoder_cache_spec(const DecoderConfig& config, int32_t page_tokens,
                                      const kvcache::KvFormat& format) {
  std::map<int32_t, std::vector<int32_t>> layers_by_window;  // 0 sorts first
  for (int32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    layers_by_window[config.windows[static_cast<size_t>(layer)]].push_back(layer);
  }
  kvcache::CacheSpec spec;
  spec.page_tokens = page_tokens;
  const layers::AttentionConfig& a = config.attention;
  for (const auto& [window, layers] : layers_by_window) {
    kvcache::CacheGroup group;
    group.kind = window == 0 ? kvcache::GroupKind::full : kvcache::GroupKind::window;
    group.window = window;
    group.layers = layers;
    group.kv_heads = a.kv_heads;
    group.head_dim = a.head_dim;
    group.bytes_per_page = int64_t{2} * page_tokens * a.kv_heads * format.head_bytes(a.head_dim) *
                           static_cast<int64_t>(layers.size());
    spec.groups.push_back(std::move(group));
  }
  return spec;
}

LanguageModelInfo decoder_info(const tensor::Checkpoint& checkpoint, const DecoderConfig& config,
                               std::string_view architecture) {
  const Result<tensor::GenerationDefaults> defaults = read_generation_defaults(checkpoint);
  if (!defaults) {
    throw LoadError(defaults.error().message);
  }
  LanguageModelInfo info;
  info.architecture = architecture;
  info.format = format_name(checkpoint);
  info.vocab_tokens = config.vocab_size;
  info.context_tokens = config.max_position_embeddings;
  info.hidden_size = config.hidden_size;
  info.intermediate_size = config.intermediate_size;
  info.eos_tokens = defaults->eos_token_ids;
  for (const tensor::FileTensor& tensor : checkpoint.tensors()) {
    info.weight_bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  return info;
}

}  // namespace pome::models
