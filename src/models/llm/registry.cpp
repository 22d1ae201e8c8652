#include <fmt/format.h>

#include <exception>

#include "models/llm/gemma3.h"
#include "models/llm/llama.h"
#include "models/llm/load_model.h"
#include "models/llm/qwen2.h"
#include "models/llm/qwen3.h"
#include "tensor/checkpoint/load_error.h"

namespace pome::models {
namespace {

struct Architecture {
  std::string_view model_type;  // config.json
  std::string_view gguf;        // general.architecture
  std::unique_ptr<LanguageModel> (*load)(const tensor::Checkpoint&, const LoadOptions&);
};

// clang-format off
constexpr Architecture kArchitectures[] = {
    {"gemma3", "gemma3", load_gemma3},  // multimodal: the text part
    {"gemma3_text", "gemma3", load_gemma3},
    {"llama", "llama", load_llama},
    {"qwen2", "qwen2", load_qwen2},
    {"qwen3", "qwen3", load_qwen3},
};
// clang-format on

const Architecture* find_architecture(const tensor::Checkpoint& checkpoint) {
  const bool gguf = checkpoint.format() == tensor::CheckpointFormat::gguf;
  const std::string name = checkpoint.model_type();
  for (const Architecture& row : kArchitectures) {
    if (name == (gguf ? row.gguf : row.model_type)) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<LanguageModel>> load_model(const std::filesystem::path& path,
                                                  const LoadOptions& options) {
  Result<tensor::Checkpoint> checkpoint = tensor::Checkpoint::open(path);
  if (!checkpoint) {
    return checkpoint.error();
  }
  return load_model(*checkpoint, options);
}

Result<std::unique_ptr<LanguageModel>> load_model(const tensor::Checkpoint& checkpoint,
                                                  const LoadOptions& options) {
  const Architecture* architecture = find_architecture(checkpoint);
  if (architecture == nullptr) {
    const std::string name = checkpoint.model_type();
    return invalid(fmt::format("[{}] model type \"{}\" is not supported; supported: {}",
                               checkpoint.path().string(), name.substr(0, 80),
                               fmt::join(supported_architectures(), ", ")));
  }
  try {
    return architecture->load(checkpoint, options);
  } catch (const tensor::LoadError& error) {
    return invalid(fmt::format("[{}] {}", checkpoint.path().string(), error.what()));
  } catch (const std::exception& error) {
    return Error{
        ErrorCode::internal,
        fmt::format("[{}] cannot load the model: {}", checkpoint.path().string(), error.what()),
        {}};
  }
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Architecture& row : kArchitectures) {
    names.emplace_back(row.model_type);
  }
  return names;
}

}  // namespace pome::models
