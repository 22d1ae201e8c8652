#pragma once

#include <cstdint>
#include <vector>

#include "kernels/rope/rope.h"

namespace pome::layers {

// How a checkpoint stretches rotary positions past the context it was first trained with.
enum class RopeKind {
  plain,       // frequencies base^(-2i / D)
  linear,      // all divided by `factor` (arXiv 2306.15595)
  wavelength,  // long waves divided by `factor`, short ones kept, a ramp between (arXiv 2407.21783)
  yarn,        // by rotations inside the original context, and a factor on sine and cosine
               // (arXiv 2309.00071)
};

struct RopeScaling {
  RopeKind kind = RopeKind::plain;
  float factor = 1.0f;
  int32_t original_context = 0;   // wavelength, yarn: tokens
  float low_freq_factor = 1.0f;   // wavelength
  float high_freq_factor = 4.0f;  // wavelength
  float beta_fast = 32.0f;        // yarn
  float beta_slow = 1.0f;         // yarn
  float attention_factor = 0.0f;  // yarn; 0: 0.1 · ln(factor) + 1
};

struct RopeConfig {
  float theta = 10000.0f;  // the base
  RopeScaling scaling = {};
  // Divisors of the plain frequencies, D / 2 of them; takes the place of `scaling` where a file
  // gives them.
  std::vector<float> frequency_divisors = {};
};

// The rotation of heads of `head_dim` elements, pairs (i, i + D / 2), frequencies worked out.
kernels::RopeOptions rope_options(const RopeConfig& config, int32_t head_dim);

}  // namespace pome::layers
