#include "tensor/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "tensor/dense.h"

namespace pome::tensor {

struct Weights::State {
  Checkpoint checkpoint;
  WeightMap map;
  mx::Dtype dtype;
  std::unordered_set<const FileTensor*> read;

  std::string file_name(std::string_view name) const {
    return map.file_name ? map.file_name(name) : std::string(name);
  }
};

namespace {

constexpr size_t kNamesListedMax = 8;

std::vector<int64_t> wide(const mx::Shape& shape) {
  return {shape.begin(), shape.end()};
}

// The entry of an MLX checkpoint's quantization object: bits and group size of an affine format.
AffineSetting read_setting(const json::object& object, std::string_view path) {
  const std::string mode = pome::find_string(object, "mode").value_or("affine");
  const std::optional<int64_t> bits = find_int(object, "bits");
  const std::optional<int64_t> group_size = find_int(object, "group_size");
  if (mode != "affine") {
    throw LoadError(fmt::format(
        "[config] quantization mode \"{}\" of {} is not supported; supported: affine", mode, path));
  }
  constexpr int64_t kBits[] = {2, 3, 4, 5, 6, 8};
  constexpr int64_t kGroups[] = {32, 64, 128};
  if (!bits || std::find(std::begin(kBits), std::end(kBits), *bits) == std::end(kBits) ||
      !group_size ||
      std::find(std::begin(kGroups), std::end(kGroups), *group_size) == std::end(kGroups)) {
    throw LoadError(
        fmt::format("[config] expected quantization of {} with bits 2, 3, 4, 5, 6 or 8 and "
                    "group_size 32, 64 or 128, got {}",
                    path, to_string(json::value(object))));
  }
  return {static_cast<int32_t>(*bits), static_cast<int32_t>(*group_size)};
}

// The checkpoint's quantization object; nullptr where it has none. Throws for another tool's format
// and for what is no object.
const json::object* quantization_of(const json::object& config) {
  for (std::string_view key : {"quantization", "quantization_config"}) {
    const json::value* value = config.if_contains(key);
    if (value == nullptr || value->is_null()) {
      continue;
    }
    const json::object* object = value->if_object();
    if (object == nullptr) {
      throw LoadError(
          fmt::format("[config] expected \"{}\" to be an object, got {}", key, to_string(*value)));
    }
    if (!find_int(*object, "bits") || !find_int(*object, "group_size") ||
        pome::find_string(*object, "quant_method")) {
      throw LoadError(
          fmt::format("[config] \"{}\" of method \"{}\" is not supported; supported: MLX's affine "
                      "format (bits, "
                      "group_size) and GGUF files",
                      key, pome::find_string(*object, "quant_method").value_or("unknown")));
    }
    return object;
  }
  return nullptr;
}

}  // namespace

Weights::Weights(const Checkpoint& checkpoint, WeightMap map, mx::Dtype dtype)
    : state_(std::make_shared<State>(State{checkpoint, std::move(map), dtype, {}})) {
  // Also where no tensor asks for it: dense weights beside it are not what the file says they are.
  if (const json::object* setting = quantization()) {
    read_setting(*setting, "the model");
  }
}

Weights::Weights(std::shared_ptr<State> state, std::string path)
    : state_(std::move(state)), path_(std::move(path)) {}

Weights Weights::operator/(std::string_view name) const {
  return {state_, full_name(name)};
}

Weights Weights::operator/(int32_t index) const {
  return *this / std::to_string(index);
}

const std::string& Weights::path() const {
  return path_;
}

std::string Weights::full_name(std::string_view leaf) const {
  return path_.empty() ? std::string(leaf) : fmt::format("{}.{}", path_, leaf);
}

mx::Dtype Weights::dtype() const {
  return state_->dtype;
}

const Checkpoint& Weights::checkpoint() const {
  return state_->checkpoint;
}

bool Weights::has(std::string_view leaf) const {
  return state_->checkpoint.find(state_->file_name(full_name(leaf))) != nullptr;
}

const FileTensor& Weights::take(std::string_view leaf, const mx::Shape& shape) const {
  const std::string name = full_name(leaf);
  const std::string file_name = state_->file_name(name);
  const FileTensor* tensor = state_->checkpoint.find(file_name);
  if (tensor == nullptr) {
    throw LoadError(file_name == name
                        ? fmt::format("[load] tensor \"{}\" is missing", name)
                        : fmt::format("[load] tensor \"{}\" ({}) is missing", file_name, name));
  }
  if (!shape.empty() && tensor->shape != wide(shape)) {
    throw LoadError(fmt::format("[load] tensor \"{}\": expected shape {}, got {}", name,
                                shape_text(wide(shape)), shape_text(tensor->shape)));
  }
  state_->read.insert(tensor);
  return *tensor;
}

mx::array Weights::read_dense(std::string_view leaf, const FileTensor& tensor, bool convert) const {
  if (is_block(tensor.encoding)) {
    throw LoadError(fmt::format("[load] tensor \"{}\": expected plain numbers, got {} blocks",
                                full_name(leaf), encoding_name(tensor.encoding)));
  }
  const float offset = state_->map.offset ? state_->map.offset(full_name(leaf)) : 0.0f;
  return dense_array(tensor, {.dtype = convert ? dtype() : dtype_of(tensor.encoding),
                              .row_order = row_order(leaf),
                              .offset = offset});
}

mx::array Weights::get(std::string_view leaf, const mx::Shape& shape) const {
  const FileTensor& tensor = take(leaf, shape);
  return read_dense(leaf, tensor, is_floating(tensor.encoding));
}

mx::array Weights::get_stored(std::string_view leaf, const mx::Shape& shape) const {
  return read_dense(leaf, take(leaf, shape), /*convert=*/false);
}

const FileTensor& Weights::file_tensor(std::string_view leaf) const {
  return take(leaf, {});
}

Encoding Weights::encoding(std::string_view leaf) const {
  const FileTensor* tensor = state_->checkpoint.find(state_->file_name(full_name(leaf)));
  if (tensor == nullptr) {
    throw LoadError(fmt::format("[load] tensor \"{}\" is missing", full_name(leaf)));
  }
  return tensor->encoding;
}

std::optional<std::vector<int32_t>> Weights::row_order(std::string_view leaf) const {
  const std::string name = full_name(leaf);
  const FileTensor* tensor = state_->checkpoint.find(state_->file_name(name));
  if (!state_->map.row_order || tensor == nullptr) {
    return std::nullopt;
  }
  std::optional<std::vector<int32_t>> order = state_->map.row_order(name, tensor->shape);
  if (order) {
    const int64_t rows = tensor->shape.empty() ? 0 : tensor->shape.front();
    CHECK(static_cast<int64_t>(order->size()) == rows, "a row order names each row");
    for (int32_t row : *order) {
      CHECK(row >= 0 && row < rows, "a row order stays inside the tensor");
    }
  }
  return order;
}

const json::object* Weights::quantization() const {
  return state_->checkpoint.format() == CheckpointFormat::hf_folder
             ? quantization_of(state_->checkpoint.config())
             : nullptr;
}

std::optional<AffineSetting> Weights::affine_setting() const {
  const json::object* quantization = this->quantization();
  if (quantization == nullptr) {
    return std::nullopt;
  }
  // Overrides stand under the module's path, in the file's names.
  std::string file_path = state_->file_name(full_name("weight"));
  constexpr std::string_view kSuffix = ".weight";
  if (file_path.size() > kSuffix.size() && file_path.ends_with(kSuffix)) {
    file_path.resize(file_path.size() - kSuffix.size());
  }
  for (const std::string& path : {path_, file_path}) {
    const json::value* entry = pome::find(*quantization, path);
    if (entry != nullptr && entry->is_object()) {
      return read_setting(entry->get_object(), path);
    }
    if (entry != nullptr && entry->is_bool() && !entry->get_bool()) {
      return std::nullopt;
    }
    if (entry != nullptr && !entry->is_bool()) {
      throw LoadError(
          fmt::format("[config] expected quantization of {} to be an object or false, "
                      "got {}",
                      path, to_string(*entry)));
    }
  }
  return read_setting(*quantization, "the model");
}

void Weights::ignore(std::string_view leaf) const {
  if (const FileTensor* tensor = state_->checkpoint.find(state_->file_name(full_name(leaf)))) {
    ignore(*tensor);
  }
}

void Weights::ignore(const FileTensor& tensor) const {
  state_->read.insert(&tensor);
}

Status Weights::check_all_read() const {
  std::vector<std::string_view> unread;
  for (const FileTensor& tensor : state_->checkpoint.tensors()) {
    if (!state_->read.contains(&tensor)) {
      unread.push_back(tensor.name);
    }
  }
  if (unread.empty()) {
    return {};
  }
  std::string names;
  for (size_t i = 0; i < std::min(unread.size(), kNamesListedMax); ++i) {
    names += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", unread[i]);
  }
  if (unread.size() > kNamesListedMax) {
    names += fmt::format(" and {} more", unread.size() - kNamesListedMax);
  }
  return invalid(
      fmt::format("[load] the checkpoint holds {} tensors that the model does not use: {}",
                  unread.size(), names));
}

}  // namespace pome::tensor
