#include "pome/host/environment.h"

#include <cstdlib>

namespace pome::apps {

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (!value || !*value) {
    return std::nullopt;
  }
  return std::string(value);
}

}  // namespace pome::apps
