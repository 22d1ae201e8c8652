#include "models/llm/gguf_names.h"

#include <fmt/format.h>

namespace pome::models {
namespace {

constexpr GgufModule kOuterModules[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};

}  // namespace

std::string gguf_tensor_name(std::string_view name, std::span<const GgufModule> modules) {
  const size_t leaf_dot = name.rfind('.');
  if (leaf_dot == std::string_view::npos) {
    return std::string(name);
  }
  std::string_view module = name.substr(0, leaf_dot);
  const std::string_view leaf = name.substr(leaf_dot + 1);
  for (const GgufModule& outer : kOuterModules) {
    if (module == outer.ours) {
      return fmt::format("{}.{}", outer.gguf, leaf);
    }
  }
  constexpr std::string_view kLayers = "model.layers.";
  const size_t index_end = module.find('.', kLayers.size());
  if (module.substr(0, kLayers.size()) != kLayers || index_end == std::string_view::npos) {
    return std::string(name);
  }
  const std::string_view index = module.substr(kLayers.size(), index_end - kLayers.size());
  module.remove_prefix(index_end + 1);
  for (std::span<const GgufModule> table :
       {modules, std::span<const GgufModule>(kPreNormModules)}) {
    for (const GgufModule& inner : table) {
      if (module == inner.ours) {
        return fmt::format("blk.{}.{}.{}", index, inner.gguf, leaf);
      }
    }
  }
  return std::string(name);
}

tensor::WeightMap decoder_weight_map(const tensor::Checkpoint& checkpoint,
                                     std::span<const GgufModule> modules) {
  tensor::WeightMap map;
  if (checkpoint.format() == tensor::CheckpointFormat::gguf) {
    map.file_name = [modules](std::string_view name) { return gguf_tensor_name(name, modules); };
  }
  return map;
}

std::optional<std::vector<int32_t>> half_rotation_order(std::string_view name,
                                                        const std::vector<int64_t>& shape,
                                                        int32_t head_dim) {
  const bool rotated = name.find("q_proj.") != std::string_view::npos ||
                       name.find("k_proj.") != std::string_view::npos;
  if (!rotated || shape.empty() || shape.front() % head_dim != 0) {
    return std::nullopt;
  }
  std::vector<int32_t> order;
  for (int64_t row = 0; row < shape.front(); ++row) {
    const int64_t element = row % head_dim;
    const int64_t half = element / (head_dim / 2);
    const int64_t pair = element % (head_dim / 2);
    order.push_back(static_cast<int32_t>(row - element + 2 * pair + half));
  }
  return order;
}

}  // namespace pome::models
