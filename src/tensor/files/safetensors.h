#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "tensor/files/file_tensor.h"

namespace pome::tensor {

// Parses a whole safetensors file; the tensors' bytes are parts of `file`, and FileTensor::file
// stays empty. Refuses what the format forbids: a header past the file, duplicate names, a range
// that does not match dtype and shape, overlaps, and bytes that no tensor owns.
Result<std::vector<FileTensor>> parse_safetensors(std::span<const std::byte> file);

// All tensors of a folder: model.safetensors.index.json with its shards, model.safetensors, or the
// one *.safetensors file that is there.
Result<std::vector<FileTensor>> open_safetensors_folder(const std::filesystem::path& folder);

}  // namespace pome::tensor
