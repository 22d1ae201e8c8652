#include "tensor/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "tensor/files/gguf.h"
#include "tensor/files/safetensors.h"

namespace pome::tensor {

namespace fs = std::filesystem;

struct Checkpoint::Contents {
  CheckpointFormat format = CheckpointFormat::hf_folder;
  fs::path path;
  std::optional<json::object> config;  // emplaced, because move assignment would leave its arena
  std::optional<json::object> generation_config;
  std::vector<FileTensor> tensors;
  std::unordered_map<std::string_view, const FileTensor*> by_name;
  uint64_t file_bytes = 0;

  void index() {
    const MappedFile* last = nullptr;
    for (const FileTensor& tensor : tensors) {
      by_name.emplace(tensor.name, &tensor);
      if (tensor.file.get() != last) {
        last = tensor.file.get();
        file_bytes += last->bytes().size();
      }
    }
  }
};

namespace {

constexpr uint64_t kConfigBytesMax = uint64_t{128} << 20;

Result<std::optional<json::object>> read_json_object(const fs::path& path) {
  Result<std::optional<std::string>> text = read_file(path, kConfigBytesMax);
  if (!text) {
    return text.error();
  }
  if (!text->has_value()) {
    return std::optional<json::object>();
  }
  Result<json::value> value = parse_json(**text);
  if (!value) {
    return invalid(fmt::format("[checkpoint] {}: {}", path.string(), value.error().message));
  }
  if (!value->is_object()) {
    return invalid(fmt::format("[checkpoint] {}: expected an object, got {}", path.string(),
                               json_type_name(*value)));
  }
  return std::optional<json::object>(std::move(value->get_object()));
}

std::vector<fs::path> files_with(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == extension) {
      found.push_back(it->path());
    }
  }
  return found;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return Error{
        ErrorCode::not_found, fmt::format("[checkpoint] {} does not exist", path.string()), {}};
  }
  if (!fs::is_directory(status)) {
    if (path.extension() == ".safetensors") {
      return invalid(fmt::format("[checkpoint] expected the folder that holds {} and config.json",
                                 path.filename().string()));
    }
    return open_gguf(path);
  }
  // Folders of GGUF files often keep the original model's config.json beside them.
  const std::vector<fs::path> ggufs = files_with(path, ".gguf");
  if (ggufs.size() == 1 && files_with(path, ".safetensors").empty()) {
    return open_gguf(ggufs.front());
  }
  if (fs::exists(path / "config.json", error)) {
    return open_folder(path);
  }
  return invalid(
      fmt::format("[checkpoint] expected config.json or one *.gguf file in {}, found {} GGUF "
                  "files",
                  path.string(), ggufs.size()));
}

Result<Checkpoint> Checkpoint::open_folder(const fs::path& folder) {
  auto contents = std::make_shared<Contents>();
  contents->format = CheckpointFormat::hf_folder;
  contents->path = folder;
  Result<std::optional<json::object>> config = read_json_object(folder / "config.json");
  if (!config) {
    return config.error();
  }
  if (!config->has_value()) {
    return invalid(
        fmt::format("[checkpoint] {} is not a plain file", (folder / "config.json").string()));
  }
  contents->config.emplace(std::move(**config));
  Result<std::optional<json::object>> generation =
      read_json_object(folder / "generation_config.json");
  if (!generation) {
    return generation.error();
  }
  contents->generation_config = std::move(*generation);
  Result<std::vector<FileTensor>> tensors = open_safetensors_folder(folder);
  if (!tensors) {
    return tensors.error();
  }
  contents->tensors = std::move(*tensors);
  contents->index();
  return Checkpoint(std::move(contents));
}

Result<Checkpoint> Checkpoint::open_gguf(const fs::path& path) {
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file) {
    return file.error();
  }
  Result<GgufFile> parsed = parse_gguf((*file)->bytes());
  if (!parsed) {
    return invalid(fmt::format("{} (in {})", parsed.error().message, path.string()));
  }
  auto contents = std::make_shared<Contents>();
  contents->format = CheckpointFormat::gguf;
  contents->path = path;
  contents->config.emplace(std::move(parsed->metadata));
  contents->tensors = std::move(parsed->tensors);
  for (FileTensor& tensor : contents->tensors) {
    tensor.file = *file;
  }
  contents->index();
  return Checkpoint(std::move(contents));
}

CheckpointFormat Checkpoint::format() const {
  return contents_->format;
}
const fs::path& Checkpoint::path() const {
  return contents_->path;
}
const json::object& Checkpoint::config() const {
  return *contents_->config;
}

std::string Checkpoint::model_type() const {
  const bool gguf = contents_->format == CheckpointFormat::gguf;
  return find_string(*contents_->config, gguf ? "general.architecture" : "model_type").value_or("");
}

const json::object* Checkpoint::generation_config() const {
  return contents_->generation_config ? &*contents_->generation_config : nullptr;
}

std::optional<SideFiles> Checkpoint::side_files() const {
  if (contents_->format != CheckpointFormat::hf_folder) {
    return std::nullopt;
  }
  return SideFiles(contents_->path);
}

const std::vector<FileTensor>& Checkpoint::tensors() const {
  return contents_->tensors;
}

const FileTensor* Checkpoint::find(std::string_view name) const {
  const auto it = contents_->by_name.find(name);
  return it == contents_->by_name.end() ? nullptr : it->second;
}

uint64_t Checkpoint::file_bytes() const {
  return contents_->file_bytes;
}

}  // namespace pome::tensor
