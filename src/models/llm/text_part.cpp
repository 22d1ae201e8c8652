#include "models/llm/text_part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"

namespace pome::models {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kInnerModel = "model.language_model.";  // transformers since 4.52
constexpr std::string_view kOuterModule = "language_model.";       // before, and MLX folders

bool is_multimodal(const tensor::Checkpoint& checkpoint) {
  return checkpoint.format() == tensor::CheckpointFormat::hf_folder &&
         find_object(checkpoint.config(), "text_config") != nullptr;
}

bool has_tensors_of(const tensor::Checkpoint& checkpoint, std::string_view prefix) {
  const auto& tensors = checkpoint.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const tensor::FileTensor& t) { return t.name.starts_with(prefix); });
}

bool belongs_to(std::string_view name, std::string_view module) {
  if (name.starts_with(kModel)) {
    name.remove_prefix(kModel.size());
  }
  return name.starts_with(module) && name.substr(module.size()).starts_with('.');
}

}  // namespace

std::function<std::string(std::string_view)> text_part_names(const tensor::Checkpoint& checkpoint) {
  if (!is_multimodal(checkpoint)) {
    return {};
  }
  if (has_tensors_of(checkpoint, kOuterModule)) {
    return [](std::string_view name) { return fmt::format("{}{}", kOuterModule, name); };
  }
  if (has_tensors_of(checkpoint, kInnerModel)) {
    return [](std::string_view name) {
      return name.starts_with(kModel) ? fmt::format("{}{}", kInnerModel, name.substr(kModel.size()))
                                      : std::string(name);
    };
  }
  return {};
}

int64_t skip_other_parts(const tensor::Weights& w,
                         std::initializer_list<std::string_view> modules) {
  const tensor::Checkpoint& checkpoint = w.checkpoint();
  if (!is_multimodal(checkpoint)) {
    return 0;
  }
  int64_t count = 0;
  int64_t bytes = 0;
  for (const tensor::FileTensor& tensor : checkpoint.tensors()) {
    if (std::any_of(modules.begin(), modules.end(),
                    [&](std::string_view module) { return belongs_to(tensor.name, module); })) {
      w.ignore(tensor);
      ++count;
      bytes += static_cast<int64_t>(tensor.bytes.size());
    }
  }
  log::info("the text part is served: {} tensors of {} are not loaded", count,
            fmt::join(modules, " and "));
  return bytes;
}

}  // namespace pome::models
