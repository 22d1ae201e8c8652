#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/transfer/download.h"
#include "hub/transfer/settings.h"

namespace pome::hub {

struct PullRequest {
  std::string model;  // a short name, "org/name", "org/name:Q4_K_M" or "org/name/file.gguf"
  std::string revision = "main";  // of Hugging Face ids
};

// A model on this machine, whole: a folder with config.json, or one GGUF file.
struct LocalModel {
  std::string name;
  std::filesystem::path path;
  int64_t bytes = 0;
};

// What a --model-path means without asking the network: an existing folder or .gguf file, a short
// name or an id that was pulled before. Nothing when it is not here or not whole.
std::optional<LocalModel> find_local(const Settings& settings, const PullRequest& request);

// Whether pull() would know where to ask for it; false for a path that does not exist, say.
bool is_pullable(std::string_view model);

// Fetches what is missing and returns the model. With Settings::offline only what is here counts.
Result<LocalModel> pull(const Settings& settings, const PullRequest& request,
                        const OnProgress& on_progress);

// Whole models in both caches, sorted by name.
std::vector<LocalModel> list_local(const Settings& settings);

// Removes a pulled model, unfinished parts of it included; the number of bytes that became free.
Result<int64_t> remove_local(const Settings& settings, const std::string& model);

}  // namespace pome::hub
