#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pome::apps {

// An environment variable's value, or nothing where it is unset or empty. The one place that reads
// the environment.
std::optional<std::string> environment(std::string_view name);

// Sets what MLX reads from the environment and a server needs otherwise than MLX has it; what the
// user has set stays. Before the first call of MLX.
void prepare_mlx();

}  // namespace pome::apps
