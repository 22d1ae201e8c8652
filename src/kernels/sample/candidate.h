#pragma once

#include <cstdint>
#include <limits>

namespace pome::kernels {

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

// A token with its logit or weight.
struct Candidate {
  float value = 0.0f;
  int32_t id = 0;
};

// The order of choice: larger first, ties by lower id.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

}  // namespace pome::kernels
