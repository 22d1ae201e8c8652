#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

// Where `pome pull` leaves weights. Tests that need some skip, and say where they looked.
namespace pome::test {

inline std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("POME_CACHE")) {
    return cache;
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "." : home) / ".cache/pome";
}

// The file in the cache folder or in one of its folders.
inline std::optional<std::filesystem::path> find_weights(const std::string& name) {
  std::error_code error;
  if (std::filesystem::exists(cache_folder() / name, error)) {
    return cache_folder() / name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(cache_folder(), error)) {
    if (std::filesystem::exists(entry.path() / name, error)) {
      return entry.path() / name;
    }
  }
  return std::nullopt;
}

}  // namespace pome::test
