#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pome::tensor {

// The small files beside a model's weights: tokenizer, templates. Names that would leave the folder
// find nothing. Any thread.
class SideFiles {
 public:
  explicit SideFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The text of a file ("tokenizer.json", "additional_chat_templates/tool_use.jinja"), if there is
  // one of at most 128 MiB.
  std::optional<std::string> read(std::string_view name) const;
  bool has(std::string_view name) const;
  // Names of the plain files in a folder inside (""  is the folder itself), sorted.
  std::vector<std::string> list(std::string_view inside = {}) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace pome::tensor
