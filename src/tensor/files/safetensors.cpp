#include "tensor/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/json.h"

namespace pome::tensor {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHeaderBytesMax = uint64_t{100} << 20;
constexpr size_t kIndexBytesMax = size_t{64} << 20;
constexpr size_t kDimensionsMax = 8;

Error refuse(std::string_view name, std::string_view why) {
  return invalid(fmt::format("[safetensors] tensor \"{}\": {}", name, why));
}

// The first key that stands twice in the top-level object of `text`, which is valid JSON. The
// parser keeps only the last of equal keys, so the text is scanned once more.
std::optional<std::string> duplicate_key(std::string_view text) {
  std::unordered_set<std::string> seen;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    depth += static_cast<int>(c == '{' || c == '[') - static_cast<int>(c == '}' || c == ']');
    if (c != '"') {
      continue;
    }
    const size_t begin = i++;
    while (i < text.size() && text[i] != '"') {
      i += text[i] == '\\' ? 2 : 1;
    }
    const size_t after = text.find_first_not_of(" \t\r\n", i + 1);
    if (depth != 1 || after == std::string_view::npos || text[after] != ':') {
      continue;
    }
    Result<json::value> key = parse_json(text.substr(begin, i + 1 - begin));
    if (key && key->is_string() && !seen.emplace(key->get_string()).second) {
      return std::string(key->get_string());
    }
  }
  return std::nullopt;
}

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

Result<std::vector<int64_t>> read_shape(std::string_view name, const json::object& entry) {
  const json::array* shape = find_array(entry, "shape");
  if (shape == nullptr || shape->size() > kDimensionsMax) {
    return refuse(name, fmt::format("expected a shape of at most {} dimensions", kDimensionsMax));
  }
  std::vector<int64_t> out;
  for (const json::value& extent : *shape) {
    const std::optional<int64_t> value = as_int(extent);
    if (!value || *value < 0 || *value > INT32_MAX) {
      return refuse(name, "expected dimensions between 0 and 2147483647 in its shape");
    }
    out.push_back(*value);
  }
  return out;
}

Result<Range> read_range(std::string_view name, const json::object& entry, uint64_t data_bytes) {
  const json::array* offsets = find_array(entry, "data_offsets");
  if (offsets == nullptr || offsets->size() != 2) {
    return refuse(name, "expected data_offsets of two integers");
  }
  const std::optional<int64_t> begin = as_int((*offsets)[0]);
  const std::optional<int64_t> end = as_int((*offsets)[1]);
  if (!begin || !end || *begin < 0 || *end < *begin) {
    return refuse(name, "expected data_offsets [begin, end] with 0 <= begin <= end");
  }
  if (static_cast<uint64_t>(*end) > data_bytes) {
    return refuse(
        name,
        fmt::format("its data ends at byte {}, but the file holds {} bytes of data; it may be "
                    "truncated",
                    *end, data_bytes));
  }
  return Range{static_cast<uint64_t>(*begin), static_cast<uint64_t>(*end)};
}

Result<FileTensor> read_entry(std::string_view name, const json::value& value,
                              std::span<const std::byte> data) {
  if (!value.is_object()) {
    return refuse(name,
                  fmt::format("expected an object in the header, got {}", json_type_name(value)));
  }
  const json::object& entry = value.get_object();
  const std::string dtype = find_string(entry, "dtype").value_or("");
  const std::optional<Encoding> encoding = encoding_from_safetensors(dtype);
  if (!encoding) {
    return refuse(name, fmt::format("dtype \"{}\" is not supported; supported: {}", dtype,
                                    supported_safetensors_types()));
  }
  Result<std::vector<int64_t>> shape = read_shape(name, entry);
  if (!shape) {
    return shape.error();
  }
  Result<Range> range = read_range(name, entry, data.size());
  if (!range) {
    return range.error();
  }
  const std::optional<uint64_t> bytes = tensor_bytes(*encoding, *shape);
  if (bytes != range->end - range->begin) {
    return refuse(name, fmt::format("expected {} bytes for {} {}, got {}",
                                    bytes ? std::to_string(*bytes) : "fewer", dtype,
                                    shape_text(*shape), range->end - range->begin));
  }
  return FileTensor{std::string(name), *encoding, std::move(*shape),
                    data.subspan(range->begin, range->end - range->begin), nullptr};
}

// Every byte of `data` belongs to exactly one tensor.
Status check_cover(const std::vector<FileTensor>& tensors, std::span<const std::byte> data) {
  std::vector<const FileTensor*> order;
  for (const FileTensor& tensor : tensors) {
    if (!tensor.bytes.empty()) {
      order.push_back(&tensor);
    }
  }
  std::sort(order.begin(), order.end(), [](const FileTensor* a, const FileTensor* b) {
    return a->bytes.data() < b->bytes.data();
  });
  const std::byte* at = data.data();
  for (const FileTensor* tensor : order) {
    if (tensor->bytes.data() < at) {
      return refuse(tensor->name, "its data overlaps another tensor's");
    }
    if (tensor->bytes.data() > at) {
      return refuse(tensor->name, fmt::format("{} bytes before it belong to no tensor",
                                              tensor->bytes.data() - at));
    }
    at = tensor->bytes.data() + tensor->bytes.size();
  }
  if (at != data.data() + data.size()) {
    return invalid(fmt::format("[safetensors] the last {} bytes of the file belong to no tensor",
                               data.data() + data.size() - at));
  }
  return {};
}

Result<std::vector<FileTensor>> open_safetensors(const fs::path& path) {
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file) {
    return file.error();
  }
  Result<std::vector<FileTensor>> tensors = parse_safetensors((*file)->bytes());
  if (!tensors) {
    return invalid(fmt::format("{} (in {})", tensors.error().message, path.string()));
  }
  for (FileTensor& tensor : *tensors) {
    tensor.file = *file;
  }
  return tensors;
}

Result<std::map<std::string, std::set<std::string>>> read_index(const fs::path& path) {
  Result<std::optional<std::string>> text = read_file(path, kIndexBytesMax);
  if (!text) {
    return text.error();
  }
  Result<json::value> index =
      parse_json(text->value_or(""), {.depth_max = 8, .bytes_max = kIndexBytesMax});
  if (!index) {
    return invalid(fmt::format("[safetensors] {}: {}", path.string(), index.error().message));
  }
  const json::object* map =
      index->is_object() ? find_object(index->get_object(), "weight_map") : nullptr;
  if (map == nullptr) {
    return invalid(
        fmt::format("[safetensors] {}: expected an object \"weight_map\"", path.string()));
  }
  std::map<std::string, std::set<std::string>> names_of_file;
  for (const auto& [name, value] : *map) {
    const std::string shard = value.is_string() ? std::string(value.get_string()) : "";
    // A shard is a file of the folder; a path would let an index name any file of the machine.
    if (shard.empty() || shard.find_first_of("/\\") != std::string::npos || shard.front() == '.') {
      return refuse(std::string_view(name),
                    "expected the name of a file beside the index in weight_map");
    }
    names_of_file[shard].insert(std::string(name));
  }
  return names_of_file;
}

Result<std::vector<FileTensor>> open_sharded(const fs::path& folder, const fs::path& index_path) {
  Result<std::map<std::string, std::set<std::string>>> index = read_index(index_path);
  if (!index) {
    return index.error();
  }
  std::vector<FileTensor> all;
  for (auto& [shard, names] : *index) {
    Result<std::vector<FileTensor>> tensors = open_safetensors(folder / shard);
    if (!tensors) {
      return tensors.error();
    }
    for (FileTensor& tensor : *tensors) {
      if (names.erase(tensor.name) == 0) {
        return refuse(tensor.name,
                      fmt::format("it is in {}, but the index does not place it there", shard));
      }
      all.push_back(std::move(tensor));
    }
    if (!names.empty()) {
      return refuse(*names.begin(),
                    fmt::format("the index places it in {}, which does not hold it", shard));
    }
  }
  return all;
}

}  // namespace

Result<std::vector<FileTensor>> parse_safetensors(std::span<const std::byte> file) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof header_bytes) {
    return invalid("[safetensors] the file is shorter than its 8-byte header length");
  }
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  if (header_bytes > kHeaderBytesMax || header_bytes > file.size() - sizeof header_bytes) {
    return invalid(fmt::format(
        "[safetensors] expected a header of at most {} bytes, got a length of {}",
        std::min<uint64_t>(kHeaderBytesMax, file.size() - sizeof header_bytes), header_bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof header_bytes,
                              header_bytes);
  Result<json::value> header =
      parse_json(text, {.depth_max = 8, .bytes_max = static_cast<size_t>(kHeaderBytesMax)});
  if (!header || !header->is_object()) {
    return invalid(fmt::format("[safetensors] expected a JSON object as header: {}",
                               header ? "it is none" : header.error().message));
  }
  if (const std::optional<std::string> twice = duplicate_key(text)) {
    return refuse(*twice, "it stands twice in the header");
  }
  const std::span<const std::byte> data = file.subspan(sizeof header_bytes + header_bytes);
  std::vector<FileTensor> tensors;
  for (const auto& [key, value] : header->get_object()) {
    if (key == "__metadata__") {
      continue;
    }
    Result<FileTensor> tensor = read_entry(std::string_view(key), value, data);
    if (!tensor) {
      return tensor.error();
    }
    tensors.push_back(std::move(*tensor));
  }
  POME_TRY(check_cover(tensors, data));
  return tensors;
}

Result<std::vector<FileTensor>> open_safetensors_folder(const fs::path& folder) {
  std::error_code ignored;
  if (const fs::path index = folder / "model.safetensors.index.json"; fs::exists(index, ignored)) {
    return open_sharded(folder, index);
  }
  if (const fs::path single = folder / "model.safetensors"; fs::exists(single, ignored)) {
    return open_safetensors(single);
  }
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (it->path().extension() == ".safetensors") {
      found.push_back(it->path());
    }
  }
  if (found.size() != 1) {
    return invalid(
        fmt::format("[safetensors] expected model.safetensors, model.safetensors.index.json or one "
                    "*.safetensors file in {}, found {} *.safetensors files",
                    folder.string(), found.size()));
  }
  return open_safetensors(found.front());
}

}  // namespace pome::tensor
