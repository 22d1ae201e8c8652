#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor/mlx.h"

namespace pome::kvpool {

// Memory that reads as zero and takes room only where it was written: the pages of a pool. On the
// CPU it is one anonymous mapping from which arrays are cut; elsewhere, and where MLX cannot wrap
// foreign memory, arrays are filled with zeros by MLX.
class PageMemory {
 public:
  // Throws std::runtime_error when the address space is not granted.
  explicit PageMemory(int64_t bytes);

  // The next array of this shape. The arrays keep the mapping alive.
  mx::array cut(const mx::Shape& shape, mx::Dtype dtype);

  // Whether pools of this process are committed as they are used.
  static bool commits_as_used();

  // What cut() takes from the budget for an array of so many bytes.
  static int64_t room(int64_t array_bytes);

 private:
  struct Mapping;
  std::shared_ptr<Mapping> mapping_;  // empty where MLX owns the memory
  int64_t used_ = 0;
};

}  // namespace pome::kvpool
