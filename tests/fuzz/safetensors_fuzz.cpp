// rooms: base tensor/files
// Any bytes are refused or parsed; what was parsed lies inside the file and matches its types and
// shapes.
#include <cstdint>
#include <cstdlib>

#include "tensor/files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(bytes), count);
  const auto tensors = pome::tensor::parse_safetensors(file);
  if (!tensors) {
    return 0;
  }
  for (const pome::tensor::FileTensor& tensor : *tensors) {
    const bool inside = tensor.bytes.empty() ||
                        (tensor.bytes.data() >= file.data() &&
                         tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size());
    if (!inside ||
        pome::tensor::tensor_bytes(tensor.encoding, tensor.shape) != tensor.bytes.size()) {
      std::abort();
    }
  }
  return 0;
}
