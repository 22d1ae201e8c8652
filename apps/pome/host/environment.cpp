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

void prepare_mlx() {
  // MLX's CUDA back end counts the shapes of graphs it has not seen and throws after 800 of them in
  // a process's life; a server meets new ones for ever.
  setenv("MLX_ENABLE_CACHE_THRASHING_CHECK", "0", /*overwrite=*/0);
  // There, products of float32 would keep 11 bits of it.
  setenv("MLX_ENABLE_TF32", "0", /*overwrite=*/0);
}

}  // namespace pome::apps
