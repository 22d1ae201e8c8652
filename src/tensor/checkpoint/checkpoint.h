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
#include "tensor/checkpoint/side_files.h"
#include "tensor/files/file_tensor.h"

namespace pome::tensor {

enum class CheckpointFormat { hf_folder, gguf };

// A model on disk, opened and checked but not yet turned into arrays. HF folder: config.json,
// single or sharded safetensors. GGUF: one file; its metadata becomes config(). Immutable and cheap
// to copy (copies share the mapping); any thread.
class Checkpoint {
 public:
  // Truncated, hostile and inconsistent files are an Error that names the tensor or key; never a
  // crash. `path` is a folder with config.json, a folder with one GGUF file, or a GGUF file.
  static Result<Checkpoint> open(const std::filesystem::path& path);

  CheckpointFormat format() const;
  // The folder or the GGUF file.
  const std::filesystem::path& path() const;
  // HF: "model_type" of config.json. GGUF: "general.architecture". Empty where absent.
  std::string model_type() const;
  // HF: the parsed config.json. GGUF: an object with the metadata's keys ("llama.block_count",
  // ...); tokenizer arrays are in it too.
  const json::object& config() const;
  // HF: generation_config.json where present.
  const json::object* generation_config() const;
  // What stands beside config.json; nothing for a GGUF file, which holds all that it needs.
  std::optional<SideFiles> side_files() const;
  const std::vector<FileTensor>& tensors() const;
  const FileTensor* find(std::string_view name) const;
  // Bytes of all files that hold tensors.
  uint64_t file_bytes() const;

 private:
  struct Contents;
  explicit Checkpoint(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  static Result<Checkpoint> open_folder(const std::filesystem::path& folder);
  static Result<Checkpoint> open_gguf(const std::filesystem::path& file);

  std::shared_ptr<const Contents> contents_;
};

}  // namespace pome::tensor
