#include "tensor/files/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <unordered_set>

namespace pome::tensor {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian");

constexpr uint64_t kKeyBytesMax = 65535;
constexpr uint64_t kDimensionsMax = 4;
constexpr uint64_t kAlignmentMax = uint64_t{1} << 20;
constexpr int kArrayDepthMax = 4;

// Metadata value types, numbered as in the file.
enum class ValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};

Error truncated(std::string_view what) {
  return invalid(fmt::format("[gguf] the file ends inside {}; it may be truncated", what));
}

// Reads little-endian values off the front of the file; every read is checked against what is left.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> file) : file_(file) {}

  template <typename T>
  bool read(T& value) {
    if (left() < sizeof value) {
      return false;
    }
    std::memcpy(&value, file_.data() + at_, sizeof value);
    at_ += sizeof value;
    return true;
  }

  bool read_string(std::string_view& text) {
    uint64_t size = 0;
    if (!read(size) || size > left()) {
      return false;
    }
    text = {reinterpret_cast<const char*>(file_.data()) + at_, static_cast<size_t>(size)};
    at_ += static_cast<size_t>(size);
    return true;
  }

  uint64_t at() const { return at_; }
  uint64_t left() const { return file_.size() - at_; }

 private:
  std::span<const std::byte> file_;
  size_t at_ = 0;
};

// The fewest bytes that a value of this type takes; 0 for an unknown type.
uint64_t least_bytes(uint32_t type) {
  constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

class MetadataReader {
 public:
  MetadataReader(Cursor& cursor, json::storage_ptr storage)
      : cursor_(cursor), storage_(std::move(storage)) {}

  Result<json::object> read(uint64_t count) {
    json::object metadata(storage_);
    for (uint64_t i = 0; i < count; ++i) {
      std::string_view key;
      uint32_t type = 0;
      if (!cursor_.read_string(key) || key.empty() || key.size() > kKeyBytesMax ||
          !cursor_.read(type)) {
        return truncated(fmt::format("metadata key {} of {}", i + 1, count));
      }
      json::value value(storage_);
      POME_TRY(read_value(key, type, 0, value));
      if (!metadata.emplace(key, std::move(value)).second) {
        return invalid(fmt::format("[gguf] metadata key \"{}\" stands twice", key));
      }
    }
    return metadata;
  }

 private:
  template <typename T>
  bool read_number(json::value& out) {
    T value = 0;
    if (!cursor_.read(value)) {
      return false;
    }
    out = value;
    return true;
  }

  bool read_boolean(json::value& out) {
    uint8_t value = 0;
    if (!cursor_.read(value)) {
      return false;
    }
    out = value != 0;
    return true;
  }

  bool read_text(json::value& out) {
    std::string_view text;
    if (!cursor_.read_string(text)) {
      return false;
    }
    out.emplace_string() = text;
    return true;
  }

  bool read_scalar(uint32_t type, json::value& out) {
    switch (static_cast<ValueType>(type)) {
      case ValueType::u8:
        return read_number<uint8_t>(out);
      case ValueType::i8:
        return read_number<int8_t>(out);
      case ValueType::u16:
        return read_number<uint16_t>(out);
      case ValueType::i16:
        return read_number<int16_t>(out);
      case ValueType::u32:
        return read_number<uint32_t>(out);
      case ValueType::i32:
        return read_number<int32_t>(out);
      case ValueType::f32:
        return read_number<float>(out);
      case ValueType::boolean:
        return read_boolean(out);
      case ValueType::string:
        return read_text(out);
      case ValueType::u64:
        return read_number<uint64_t>(out);
      case ValueType::i64:
        return read_number<int64_t>(out);
      case ValueType::f64:
        return read_number<double>(out);
      case ValueType::array:
        break;
    }
    return false;
  }

  Status read_value(std::string_view key, uint32_t type, int depth, json::value& out) {
    if (least_bytes(type) == 0) {
      return invalid(fmt::format("[gguf] metadata key \"{}\" has the unknown type {}", key, type));
    }
    if (static_cast<ValueType>(type) == ValueType::array) {
      return read_array(key, depth, out);
    }
    if (!read_scalar(type, out)) {
      return truncated(fmt::format("metadata key \"{}\"", key));
    }
    return {};
  }

  Status read_array(std::string_view key, int depth, json::value& out) {
    uint32_t type = 0;
    uint64_t count = 0;
    if (!cursor_.read(type) || !cursor_.read(count)) {
      return truncated(fmt::format("metadata key \"{}\"", key));
    }
    if (depth >= kArrayDepthMax) {
      return invalid(
          fmt::format("[gguf] metadata key \"{}\" nests more than {} arrays", key, kArrayDepthMax));
    }
    if (least_bytes(type) == 0) {
      return invalid(fmt::format("[gguf] metadata key \"{}\" has the unknown type {}", key, type));
    }
    // Both bounds come before any allocation, which the count would otherwise size.
    if (count > cursor_.left() / least_bytes(type)) {
      return truncated(fmt::format("metadata key \"{}\"", key));
    }
    array_values_ += count;
    if (array_values_ > kGgufArrayValuesMax) {
      return invalid(
          fmt::format("[gguf] expected at most {} values in metadata arrays, passed at key \"{}\"",
                      kGgufArrayValuesMax, key));
    }
    json::array& array = out.emplace_array();
    array.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) {
      POME_TRY(read_value(key, type, depth + 1, array.emplace_back(nullptr)));
    }
    return {};
  }

  Cursor& cursor_;
  json::storage_ptr storage_;
  uint64_t array_values_ = 0;
};

struct TensorInfo {
  FileTensor tensor;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

Error refuse(std::string_view name, std::string_view why) {
  return invalid(fmt::format("[gguf] tensor \"{}\": {}", name, why));
}

Status read_info(Cursor& cursor, TensorInfo& info) {
  std::string_view name;
  uint32_t dimensions = 0;
  if (!cursor.read_string(name) || !cursor.read(dimensions)) {
    return truncated("the list of tensors");
  }
  if (name.empty() || name.size() > kKeyBytesMax) {
    return invalid(fmt::format("[gguf] a tensor's name has {} bytes", name.size()));
  }
  info.tensor.name = name;
  if (dimensions == 0 || dimensions > kDimensionsMax) {
    return refuse(name,
                  fmt::format("expected 1 to {} dimensions, got {}", kDimensionsMax, dimensions));
  }
  info.tensor.shape.resize(dimensions);
  for (uint32_t axis = 0; axis < dimensions; ++axis) {
    uint64_t extent = 0;
    if (!cursor.read(extent)) {
      return truncated("the list of tensors");
    }
    if (extent == 0 || extent > INT32_MAX) {
      return refuse(name,
                    fmt::format("expected dimensions between 1 and {}, got {}", INT32_MAX, extent));
    }
    // The file lists the innermost dimension first.
    info.tensor.shape[dimensions - 1 - axis] = static_cast<int64_t>(extent);
  }
  uint32_t type = 0;
  if (!cursor.read(type) || !cursor.read(info.offset)) {
    return truncated("the list of tensors");
  }
  const std::optional<Encoding> encoding = encoding_from_gguf(type);
  if (!encoding) {
    return refuse(name, fmt::format("type {} is not supported; supported: {}", gguf_type_name(type),
                                    supported_gguf_types()));
  }
  info.tensor.encoding = *encoding;
  const std::optional<uint64_t> bytes = tensor_bytes(*encoding, info.tensor.shape);
  if (!bytes) {
    return refuse(
        name, fmt::format("shape {} does not hold whole blocks of {} ({} weights), or is too large",
                          shape_text(info.tensor.shape), encoding_name(*encoding),
                          block_weights(*encoding)));
  }
  info.bytes = *bytes;
  return {};
}

Result<uint64_t> read_alignment(const json::object& metadata) {
  const json::value* value = find(metadata, "general.alignment");
  if (value == nullptr) {
    return uint64_t{32};
  }
  const std::optional<int64_t> alignment = as_int(*value);
  if (!alignment || *alignment < 8 || static_cast<uint64_t>(*alignment) > kAlignmentMax ||
      !std::has_single_bit(static_cast<uint64_t>(*alignment))) {
    return invalid("[gguf] expected general.alignment to be a power of two from 8 to 1048576");
  }
  return static_cast<uint64_t>(*alignment);
}

// Gives each tensor its bytes; ranges lie inside the data, are aligned and do not overlap.
Status place(std::vector<TensorInfo>& infos, std::span<const std::byte> data, uint64_t alignment) {
  std::vector<const TensorInfo*> order;
  for (TensorInfo& info : infos) {
    if (info.offset % alignment != 0) {
      return refuse(info.tensor.name,
                    fmt::format("offset {} is not a multiple of {}", info.offset, alignment));
    }
    if (info.offset > data.size() || info.bytes > data.size() - info.offset) {
      return refuse(
          info.tensor.name,
          fmt::format("its {} bytes at offset {} end past the file's {} bytes of data; it may "
                      "be truncated",
                      info.bytes, info.offset, data.size()));
    }
    info.tensor.bytes =
        data.subspan(static_cast<size_t>(info.offset), static_cast<size_t>(info.bytes));
    order.push_back(&info);
  }
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes) {
      return refuse(order[i]->tensor.name,
                    fmt::format("its data overlaps that of \"{}\"", order[i - 1]->tensor.name));
    }
  }
  return {};
}

Result<std::vector<FileTensor>> read_tensors(Cursor& cursor, uint64_t count, uint64_t alignment,
                                             std::span<const std::byte> file) {
  std::vector<TensorInfo> infos(static_cast<size_t>(count));
  std::unordered_set<std::string_view> names;
  for (TensorInfo& info : infos) {
    POME_TRY(read_info(cursor, info));
    if (!names.insert(info.tensor.name).second) {
      return refuse(info.tensor.name, "it stands twice in the file");
    }
  }
  const uint64_t data_begin = (cursor.at() + alignment - 1) / alignment * alignment;
  if (data_begin > file.size() && count > 0) {
    return truncated("the padding before the data");
  }
  POME_TRY(place(infos, file.subspan(std::min<size_t>(data_begin, file.size())), alignment));
  std::vector<FileTensor> tensors;
  tensors.reserve(infos.size());
  for (TensorInfo& info : infos) {
    tensors.push_back(std::move(info.tensor));
  }
  return tensors;
}

}  // namespace

Result<GgufFile> parse_gguf(std::span<const std::byte> file) {
  // The least that a tensor's entry and a metadata entry take: bounds the counts before anything is
  // allocated.
  constexpr uint64_t kInfoBytesLeast = 8 + 1 + 4 + 8 + 4 + 8;
  constexpr uint64_t kEntryBytesLeast = 8 + 1 + 4 + 1;
  Cursor cursor(file);
  char magic[4] = {};
  uint32_t version = 0;
  if (!cursor.read(magic) || std::memcmp(magic, "GGUF", 4) != 0) {
    return invalid("[gguf] the file does not begin with \"GGUF\"");
  }
  uint64_t tensor_count = 0;
  uint64_t metadata_count = 0;
  if (!cursor.read(version)) {
    return truncated("the header");
  }
  if (version != 2 && version != 3) {
    return invalid(fmt::format(
        "[gguf] version {} is not supported; supported: 2 and 3, little-endian", version));
  }
  if (!cursor.read(tensor_count) || !cursor.read(metadata_count)) {
    return truncated("the header");
  }
  if (tensor_count > cursor.left() / kInfoBytesLeast ||
      metadata_count > cursor.left() / kEntryBytesLeast) {
    return invalid(
        fmt::format("[gguf] {} tensors and {} metadata keys do not fit a file of {} bytes",
                    tensor_count, metadata_count, file.size()));
  }
  // One arena for the vocabulary's hundreds of thousands of strings; it lives as long as the
  // object.
  MetadataReader reader(cursor, json::make_shared_resource<json::monotonic_resource>());
  Result<json::object> metadata = reader.read(metadata_count);
  if (!metadata) {
    return metadata.error();
  }
  if (find_int(*metadata, "split.count").value_or(1) > 1) {
    return invalid(
        "[gguf] this is one part of a split file; merge the parts first (gguf-split --merge)");
  }
  Result<uint64_t> alignment = read_alignment(*metadata);
  if (!alignment) {
    return alignment.error();
  }
  Result<std::vector<FileTensor>> tensors = read_tensors(cursor, tensor_count, *alignment, file);
  if (!tensors) {
    return tensors.error();
  }
  return GgufFile{std::move(*metadata), std::move(*tensors)};
}

}  // namespace pome::tensor
