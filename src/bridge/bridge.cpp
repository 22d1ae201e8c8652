#include "bridge/bridge.h"

#include <fmt/format.h>

namespace pome::bridge {

Status status(int32_t code, const Buffer& error, std::string_view where) {
  if (code == POME_OK) {
    return {};
  }
  std::string message = fmt::format("[{}] {}", where, error.text());
  if (code == POME_PANICKED) {
    return Error{ErrorCode::internal, std::move(message), {}};
  }
  return invalid(std::move(message));
}

}  // namespace pome::bridge
