#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/files/encoding.h"
#include "tensor/files/mapped_file.h"

namespace pome::tensor {

// A tensor as it lies in a file: name, shape in row-major order (outermost first, for GGUF too),
// and its bytes, already checked to lie inside the mapping and to match encoding and shape.
struct FileTensor {
  std::string name;
  Encoding encoding = Encoding::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedFile> file;
};

}  // namespace pome::tensor
