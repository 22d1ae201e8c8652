#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hub/transfer/settings.h"

namespace pome::hub {

// What pip would use, so that a machine whose pip works needs no second configuration.
struct PipConfig {
  std::string index_url;
  std::string cert;
  std::vector<std::filesystem::path> find_links;
};

// PIP_INDEX_URL, PIP_CERT and PIP_FIND_LINKS win over the files; a user's file wins over the
// machine's.
PipConfig read_pip_config(const Environment& environment);

// Applies one configuration file's [global] and [install] sections on top of `config`.
void apply_pip_file(std::string_view content, PipConfig& config);

}  // namespace pome::hub
