#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace pome::tensor {

// A file mapped read-only for as long as somebody holds it. A file that another program truncates
// while it is mapped is outside what can be guarded: replace model files, do not rewrite them.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

  // Tells the kernel that these bytes were repacked, so that resident memory shrinks. Only whole
  // pages inside `part` go; reading them again is allowed and reads the file again. Any thread.
  void drop(std::span<const std::byte> part) const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// The whole text of a small file; nothing where there is no such file, an Error past `bytes_max`.
Result<std::optional<std::string>> read_file(const std::filesystem::path& path, uint64_t bytes_max);

}  // namespace pome::tensor
