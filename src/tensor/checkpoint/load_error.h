#pragma once

#include <stdexcept>

namespace pome::tensor {

// Thrown while a model is constructed from a checkpoint; caught at the model-load border and turned
// into an Error.
class LoadError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace pome::tensor
