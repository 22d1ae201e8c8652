#pragma once

#include <span>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tensor/files/file_tensor.h"

namespace pome::tensor {

struct GgufFile {
  json::object metadata;  // each key with its value; arrays become JSON arrays
  std::vector<FileTensor> tensors;
};

// Values in all metadata arrays together; a file with more is refused.
inline constexpr uint64_t kGgufArrayValuesMax = uint64_t{8} << 20;

// Parses a little-endian GGUF file of version 2 or 3; the tensors' bytes are parts of `file`, and
// FileTensor::file stays empty. Errors name the key or tensor.
Result<GgufFile> parse_gguf(std::span<const std::byte> file);

}  // namespace pome::tensor
