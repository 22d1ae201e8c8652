#include "tensor/checkpoint/hf_config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "tensor/checkpoint/load_error.h"

namespace pome::tensor {
namespace {

// What decoder architectures share in GGUF files.
constexpr std::array kSharedGgufNames = {
    GgufName{"hidden_size", "{arch}.embedding_length"},
    GgufName{"num_hidden_layers", "{arch}.block_count"},
    GgufName{"intermediate_size", "{arch}.feed_forward_length"},
    GgufName{"num_attention_heads", "{arch}.attention.head_count"},
    GgufName{"num_key_value_heads", "{arch}.attention.head_count_kv"},
    GgufName{"head_dim", "{arch}.attention.key_length"},
    GgufName{"rms_norm_eps", "{arch}.attention.layer_norm_rms_epsilon"},
    GgufName{"sliding_window", "{arch}.attention.sliding_window"},
    GgufName{"rope_theta", "{arch}.rope.freq_base"},
    GgufName{"max_position_embeddings", "{arch}.context_length"},
    GgufName{"vocab_size", "{arch}.vocab_size"},
};

std::string range_text(IntRange range) {
  return fmt::format("an integer from {} to {}", range.least, range.most);
}

[[noreturn]] void refuse(std::string_view label, std::string_view expected, std::string_view got) {
  throw LoadError(fmt::format("[config] expected {} to be {}, got {}", label, expected, got));
}

std::string got_text(const json::value& value) {
  if (value.is_object() || value.is_array()) {
    return std::string(json_type_name(value));
  }
  const std::string text = to_string(value);
  return text.size() > 60 ? text.substr(0, 60) + "…" : text;
}

}  // namespace

HfConfig::HfConfig(const Checkpoint& checkpoint, std::vector<GgufName> names, json::object defaults)
    : checkpoint_(checkpoint),
      names_(std::move(names)),
      defaults_(std::make_shared<const json::object>(std::move(defaults))) {
  if (from_gguf()) {
    objects_ = {&checkpoint_.config()};
    return;
  }
  if (const json::object* text = find_object(checkpoint_.config(), "text_config")) {
    objects_.push_back(text);
  }
  objects_.push_back(&checkpoint_.config());
  objects_.push_back(defaults_.get());
}

HfConfig::HfConfig(const HfConfig& outer, const json::object& object, std::string_view key)
    : checkpoint_(outer.checkpoint_),
      names_(outer.names_),
      objects_{&object},
      prefix_(fmt::format("{}{}.", outer.prefix_, key)) {}

std::string HfConfig::gguf_key(std::string_view key) const {
  const auto pattern = [&]() -> std::string_view {
    for (const GgufName& name : names_) {
      if (name.key == key) {
        return name.gguf;
      }
    }
    for (const GgufName& name : kSharedGgufNames) {
      if (name.key == key) {
        return name.gguf;
      }
    }
    return key;
  }();
  constexpr std::string_view kArch = "{arch}";
  if (pattern.substr(0, kArch.size()) == kArch) {
    return checkpoint_.model_type() + std::string(pattern.substr(kArch.size()));
  }
  return std::string(pattern);
}

std::string HfConfig::label(std::string_view key) const {
  if (from_gguf()) {
    return fmt::format("\"{}\" ({})", gguf_key(key), key);
  }
  return fmt::format("\"{}{}\"", prefix_, key);
}

const json::value* HfConfig::find(std::string_view key) const {
  const std::string name = from_gguf() ? gguf_key(key) : std::string(key);
  for (const json::object* object : objects_) {
    const json::value* value = pome::find(*object, name);
    if (value != nullptr && !value->is_null()) {
      return value;
    }
  }
  return nullptr;
}

const json::value& HfConfig::require(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) {
    throw LoadError(fmt::format("[config] {} is missing", label(key)));
  }
  return *value;
}

bool HfConfig::has(std::string_view key) const {
  return find(key) != nullptr;
}

int32_t HfConfig::checked_int(std::string_view key, const json::value& value,
                              IntRange range) const {
  const std::optional<int64_t> number = as_int(value);
  if (!number || *number < range.least || *number > range.most) {
    refuse(label(key), range_text(range), got_text(value));
  }
  return static_cast<int32_t>(*number);
}

float HfConfig::checked_float(std::string_view key, const json::value& value,
                              RealRange range) const {
  const std::optional<double> number = as_double(value);
  // Written so that NaN is refused too.
  if (!number || !(*number >= range.least && *number <= range.most)) {
    refuse(label(key), fmt::format("a number from {} to {}", range.least, range.most),
           got_text(value));
  }
  return static_cast<float>(*number);
}

int32_t HfConfig::get_int(std::string_view key, IntRange range) const {
  if (from_gguf() && key == "vocab_size" && !has(key)) {
    const json::array* tokens = find_array(checkpoint_.config(), "tokenizer.ggml.tokens");
    if (tokens != nullptr) {
      return checked_int(key, json::value(tokens->size()), range);
    }
  }
  return checked_int(key, require(key), range);
}

int32_t HfConfig::get_int_or(std::string_view key, int32_t fallback, IntRange range) const {
  return has(key) ? get_int(key, range) : fallback;
}

float HfConfig::get_float(std::string_view key, RealRange range) const {
  return checked_float(key, require(key), range);
}

float HfConfig::get_float_or(std::string_view key, float fallback, RealRange range) const {
  return has(key) ? get_float(key, range) : fallback;
}

bool HfConfig::get_bool_or(std::string_view key, bool fallback) const {
  const json::value* value = find(key);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_bool()) {
    refuse(label(key), "true or false", got_text(*value));
  }
  return value->get_bool();
}

std::string HfConfig::get_string(std::string_view key) const {
  const json::value& value = require(key);
  if (!value.is_string()) {
    refuse(label(key), "a string", got_text(value));
  }
  return std::string(value.get_string());
}

std::string HfConfig::get_string_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? get_string(key) : std::string(fallback);
}

std::vector<int32_t> HfConfig::get_ints(std::string_view key, IntRange range) const {
  const json::value& value = require(key);
  if (!value.is_array()) {
    refuse(label(key), "an array of integers", got_text(value));
  }
  std::vector<int32_t> out;
  for (const json::value& element : value.get_array()) {
    out.push_back(checked_int(key, element, range));
  }
  return out;
}

std::vector<float> HfConfig::get_floats(std::string_view key, RealRange range) const {
  const json::value& value = require(key);
  if (!value.is_array()) {
    refuse(label(key), "an array of numbers", got_text(value));
  }
  std::vector<float> out;
  for (const json::value& element : value.get_array()) {
    out.push_back(checked_float(key, element, range));
  }
  return out;
}

std::vector<std::string> HfConfig::get_strings(std::string_view key) const {
  const json::value& value = require(key);
  if (!value.is_array()) {
    refuse(label(key), "an array of strings", got_text(value));
  }
  std::vector<std::string> out;
  for (const json::value& element : value.get_array()) {
    if (!element.is_string()) {
      refuse(label(key), "an array of strings", got_text(element));
    }
    out.emplace_back(element.get_string());
  }
  return out;
}

std::optional<HfConfig> HfConfig::nested(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_object()) {
    refuse(label(key), "an object", got_text(*value));
  }
  return HfConfig(*this, value->get_object(), key);
}

}  // namespace pome::tensor
