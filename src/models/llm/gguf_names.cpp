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
  for (const GgufModule& inner : modules) {
    if (module == inner.ours) {
      return fmt::format("blk.{}.{}.{}", index, inner.gguf, leaf);
    }
  }
  return std::string(name);
}

}  // namespace pome::models
