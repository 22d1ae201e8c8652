#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/checkpoint/checkpoint.h"
#include "tensor/checkpoint/load_error.h"
#include "tensor/mlx.h"

namespace pome::tensor {

// How a model reads a checkpoint whose tensor names or row orders are not its own (GGUF). Lives in
// the model's file.
struct WeightMap {
  // Our dotted name ("model.layers.3.self_attn.q_proj.weight") to the file's name; empty: the same.
  std::function<std::string(std::string_view)> file_name;
  // For a tensor of our name: source row of each row, where the file stores rows permuted (llama's
  // q and k). Applied to whole rows, so it is exact for block formats.
  std::function<std::optional<std::vector<int32_t>>(std::string_view,
                                                    const std::vector<int64_t>& shape)>
      row_order;
  // Added to a dense tensor of that name after reading (gemma's norms are stored as 1 + w in GGUF).
  std::function<float(std::string_view)> offset;
};

// Per-tensor quantization of an MLX checkpoint: the `quantization` entry of config.json that
// applies to a path.
struct AffineSetting {
  int32_t bits = 4;
  int32_t group_size = 64;
};

// A cursor into a checkpoint: `w / "mlp" / "up_proj"` extends the dotted path, get("weight") reads
// the tensor under it. Throws LoadError with the full path when it is missing or of another shape.
// Keeps account of what was read, so that check_all_read() can name what was not. Used on one
// thread, while a model is constructed.
class Weights {
 public:
  // dtype is what dense floating-point tensors become: float32 on CPU, usually bfloat16 on a GPU;
  // where the file already has it, the array aliases the mapping if MLX allows that. Throws
  // LoadError when config.json speaks of a quantization that is not MLX's affine one.
  Weights(const Checkpoint& checkpoint, WeightMap map, mx::Dtype dtype);

  Weights operator/(std::string_view name) const;
  Weights operator/(int32_t index) const;

  bool has(std::string_view leaf) const;
  // A dense tensor as an array of dtype(), shape checked where `shape` is not empty.
  mx::array get(std::string_view leaf, const mx::Shape& shape = {}) const;
  // A dense tensor in the file's own dtype (f32, f16 or bf16), for large matrices.
  mx::array get_stored(std::string_view leaf, const mx::Shape& shape = {}) const;
  // The tensor as it lies in the file, for quantized weights; marks it as read.
  const FileTensor& file_tensor(std::string_view leaf) const;
  // How the file holds it, so that Linear can choose its product; not a read.
  Encoding encoding(std::string_view leaf) const;
  std::optional<std::vector<int32_t>> row_order(std::string_view leaf) const;
  // What config.json says of the module at this path ("quantization", with per-tensor overrides).
  std::optional<AffineSetting> affine_setting() const;

  const Checkpoint& checkpoint() const;
  const std::string& path() const;
  std::string full_name(std::string_view leaf) const;
  mx::Dtype dtype() const;
  // Marks a tensor that the model knows and does not need (rope frequency buffers, a tied head).
  void ignore(std::string_view leaf) const;
  void ignore(const FileTensor& tensor) const;  // one of checkpoint().tensors()
  // Names every tensor that nobody read. From any cursor of the same checkpoint.
  Status check_all_read() const;

 private:
  struct State;
  Weights(std::shared_ptr<State> state, std::string path);
  const json::object* quantization() const;  // nullptr where config.json has none
  const FileTensor& take(std::string_view leaf, const mx::Shape& shape) const;
  mx::array read_dense(std::string_view leaf, const FileTensor& tensor, bool convert) const;

  std::shared_ptr<State> state_;
  std::string path_;  // "model.layers.3.mlp", empty at the root
};

}  // namespace pome::tensor
