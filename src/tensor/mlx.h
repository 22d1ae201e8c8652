#pragma once

#include <mlx/mlx.h>

namespace pome {
// The one name under which pome speaks of MLX.
namespace mx = mlx::core;
}  // namespace pome
