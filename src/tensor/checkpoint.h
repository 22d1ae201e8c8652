#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace pome::tensor {

// How the bytes of a tensor in a file stand for numbers. Block formats are GGUF's, with GGUF's names.
enum class Encoding {
  f32, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64, boolean,
  q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k,
};

std::string_view encoding_name(Encoding encoding);
// Weights in one block, and the bytes that a block takes; 1 and the item size for plain numbers.
int32_t block_weights(Encoding encoding);
int32_t block_bytes(Encoding encoding);

// A file mapped read-only for as long as somebody holds it.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  std::span<const std::byte> bytes() const;
  const std::filesystem::path& path() const;
  // Tells the kernel that these bytes were repacked and will not be read again, so resident memory shrinks.
  void drop(std::span<const std::byte> part) const;
};

// A tensor as it lies in a file: name, shape in row-major order (outermost first, for GGUF too), and its bytes,
// already checked to lie inside the mapping.
struct FileTensor {
  std::string name;
  Encoding encoding = Encoding::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedFile> file;
};

enum class CheckpointFormat { hf_folder, gguf };

// A model on disk, opened and checked but not yet turned into arrays. HF folder: config.json, single or sharded
// safetensors. GGUF: one file; its metadata becomes `gguf` below.
class Checkpoint {
 public:
  // Truncated, hostile and inconsistent files are an Error that names the tensor or key; never a crash.
  static Result<Checkpoint> open(const std::filesystem::path& path);

  CheckpointFormat format() const;
  const std::filesystem::path& path() const;
  // HF: the parsed config.json. GGUF: an object with the metadata's keys ("llama.block_count", …); tokenizer arrays
  // are in it too.
  const json::object& config() const;
  // HF: generation_config.json where present.
  const json::object* generation_config() const;
  // The text of a file beside config.json ("tokenizer.json", "chat_template.jinja"), if there is one.
  std::optional<std::string> read_side_file(std::string_view name) const;
  const std::vector<FileTensor>& tensors() const;
  const FileTensor* find(std::string_view name) const;
};

}  // namespace pome::tensor
