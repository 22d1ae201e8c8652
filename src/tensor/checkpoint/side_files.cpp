#include "tensor/checkpoint/side_files.h"

#include <algorithm>

#include "tensor/files/mapped_file.h"

namespace pome::tensor {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBytesMax = uint64_t{128} << 20;

// True for "tokenizer.json" and "folder/name", false for what would leave the folder.
bool is_inside(std::string_view name) {
  const fs::path path(name);
  return !name.empty() && path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

}  // namespace

std::optional<std::string> SideFiles::read(std::string_view name) const {
  if (!is_inside(name)) {
    return std::nullopt;
  }
  Result<std::optional<std::string>> text = read_file(folder_ / name, kBytesMax);
  return text ? std::move(*text) : std::nullopt;
}

bool SideFiles::has(std::string_view name) const {
  std::error_code error;
  return is_inside(name) && fs::is_regular_file(folder_ / name, error);
}

std::vector<std::string> SideFiles::list(std::string_view inside) const {
  std::vector<std::string> names;
  if (!inside.empty() && !is_inside(inside)) {
    return names;
  }
  std::error_code error;
  for (fs::directory_iterator it(folder_ / inside, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) {
      names.push_back(it->path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace pome::tensor
