#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pome::hub {

enum class Algorithm { sha256, sha1 };

// A running digest (OpenSSL's). update() in any pieces, then hex() once.
class Digest {
 public:
  explicit Digest(Algorithm algorithm);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Git's name for a file: sha1 of "blob <bytes>\0" and the content. Hugging Face's etag for files
// that are not in large-file storage.
std::string git_blob_prefix(int64_t bytes);

// Digest of a whole file, `prefix` first. `seen` hears how many bytes were read; false stops.
Result<std::string> digest_file(const std::filesystem::path& path, Algorithm algorithm,
                                std::string_view prefix,
                                const std::function<bool(int64_t bytes)>& seen);

}  // namespace pome::hub
