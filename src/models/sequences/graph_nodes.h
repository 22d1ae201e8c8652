#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor/mlx.h"

namespace pome::models {

// How many operations an evaluation of these arrays would run, and how many of each name, most
// first. Outputs of one operation count once.
struct GraphNodes {
  int64_t total = 0;
  std::vector<std::pair<std::string, int64_t>> by_name;
};

GraphNodes count_nodes(const std::vector<mx::array>& outputs);

}  // namespace pome::models
