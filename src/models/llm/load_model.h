#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "models/language_model.h"
#include "tensor/checkpoint/checkpoint.h"

namespace pome::models {

struct LoadOptions {
  // What dense norms, biases and activations are: float32 on the CPU.
  mx::Dtype dtype = mx::float32;
};

// Opens an HF folder or a GGUF file and builds its model on the calling thread, which must be the
// one that will call forward(). A file that is damaged, incomplete, not understood or of an unknown
// architecture is an invalid_argument Error that names the file, the key or the tensor; a library's
// exception becomes `internal`.
Result<std::unique_ptr<LanguageModel>> load_model(const std::filesystem::path& path,
                                                  const LoadOptions& options = {});
// The same for a checkpoint that is already open (the caller read its config or chat template
// first).
Result<std::unique_ptr<LanguageModel>> load_model(const tensor::Checkpoint& checkpoint,
                                                  const LoadOptions& options = {});

// The model_type names that load_model() knows, for messages and documentation.
std::vector<std::string> supported_architectures();

}  // namespace pome::models
