#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pome::apps {

// An environment variable's value, or nothing where it is unset or empty. The one place that reads
// the environment.
std::optional<std::string> environment(std::string_view name);

}  // namespace pome::apps
