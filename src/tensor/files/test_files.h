#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Writers of small model files, for tests of every room that reads checkpoints.
namespace pome::tensor::test {

// A folder that goes with the test.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "pome_test_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file;
  }

 private:
  std::filesystem::path path_;
};

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// One safetensors file: header JSON and data as they are given.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  const uint64_t size = header.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(header).append(data);
  return out;
}

// Builds a GGUF file value by value. Call metadata first, then tensors.
class GgufBuilder {
 public:
  explicit GgufBuilder(uint32_t version = 3) : version_(version) {}

  GgufBuilder& text(std::string_view key, std::string_view value) {
    entry(key, 8);
    return put_text(metadata_, value);
  }
  GgufBuilder& u32(std::string_view key, uint32_t value) { return number(key, 4, value); }
  GgufBuilder& f32(std::string_view key, float value) { return number(key, 6, value); }
  template <typename T>
  GgufBuilder& number(std::string_view key, uint32_t type, T value) {
    entry(key, type);
    return put(metadata_, value);
  }
  GgufBuilder& texts(std::string_view key, const std::vector<std::string>& values) {
    array(key, 8, values.size());
    for (const std::string& value : values) {
      put_text(metadata_, value);
    }
    return *this;
  }
  template <typename T>
  GgufBuilder& numbers(std::string_view key, uint32_t type, const std::vector<T>& values) {
    array(key, type, values.size());
    metadata_ += raw_bytes(values);
    return *this;
  }
  // An array's head without its values.
  GgufBuilder& array(std::string_view key, uint32_t type, uint64_t count) {
    entry(key, 9);
    return put(metadata_, type).put(metadata_, count);
  }
  GgufBuilder& append_metadata(std::string_view bytes) {
    metadata_ += bytes;
    return *this;
  }

  // `shape` is row-major, outermost first. `offset` overrides the next free, aligned one.
  GgufBuilder& tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape,
                      std::string_view bytes, int64_t offset = -1) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    put_text(infos_, name).put(infos_, static_cast<uint32_t>(shape.size()));
    for (auto it = shape.rbegin(); it != shape.rend(); ++it) {
      put(infos_, *it);
    }
    put(infos_, type)
        .put(infos_, offset < 0 ? uint64_t{data_.size()} : static_cast<uint64_t>(offset));
    data_ += bytes;
    ++tensors_;
    return *this;
  }
  GgufBuilder& alignment(uint32_t bytes) {
    alignment_ = bytes;
    return u32("general.alignment", bytes);
  }

  std::string build() const {
    std::string out = "GGUF";
    append(out, version_);
    append(out, tensors_);
    append(out, entries_);
    out += metadata_ + infos_;
    out.resize((out.size() + alignment_ - 1) / alignment_ * alignment_);
    return out + data_;
  }

 private:
  template <typename T>
  static void append(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <typename T>
  GgufBuilder& put(std::string& out, T value) {
    append(out, value);
    return *this;
  }
  GgufBuilder& put_text(std::string& out, std::string_view value) {
    append(out, uint64_t{value.size()});
    out += value;
    return *this;
  }
  void entry(std::string_view key, uint32_t type) {
    put_text(metadata_, key).put(metadata_, type);
    ++entries_;
  }

  uint32_t version_;
  uint64_t entries_ = 0;
  uint64_t tensors_ = 0;
  size_t alignment_ = 32;
  std::string metadata_;
  std::string infos_;
  std::string data_;
};

}  // namespace pome::tensor::test
