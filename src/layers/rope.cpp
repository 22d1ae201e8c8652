#include "layers/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace pome::layers {
namespace {

double wavelength_frequency(double frequency, const RopeScaling& s) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double low = s.original_context / double{s.low_freq_factor};
  const double high = s.original_context / double{s.high_freq_factor};
  if (wavelength < high) {
    return frequency;
  }
  if (wavelength > low) {
    return frequency / s.factor;
  }
  const double smooth = (s.original_context / wavelength - s.low_freq_factor) /
                        (double{s.high_freq_factor} - s.low_freq_factor);
  return (1.0 - smooth) * frequency / s.factor + smooth * frequency;
}

// The pair whose wave turns `rotations` times inside the original context.
double yarn_pair(double rotations, int32_t head_dim, double theta, int32_t original_context) {
  return head_dim * std::log(original_context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(theta));
}

double yarn_frequency(double frequency, int32_t pair, int32_t head_dim, const RopeConfig& c) {
  const RopeScaling& s = c.scaling;
  const double first = yarn_pair(s.beta_fast, head_dim, c.theta, s.original_context);
  const double last = yarn_pair(s.beta_slow, head_dim, c.theta, s.original_context);
  const double low = std::max(std::floor(first), 0.0);
  double high = std::min(std::ceil(last), head_dim - 1.0);
  if (low == high) {
    high += 0.001;  // keeps the ramp finite, as the paper's code does
  }
  const double interpolated = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return frequency / s.factor * interpolated + frequency * (1.0 - interpolated);
}

float yarn_amplitude(const RopeScaling& s) {
  if (s.attention_factor > 0.0f) {
    return s.attention_factor;
  }
  return s.factor <= 1.0f ? 1.0f : 0.1f * std::log(s.factor) + 1.0f;
}

double scaled_frequency(double frequency, int32_t pair, int32_t head_dim, const RopeConfig& c) {
  if (!c.frequency_divisors.empty()) {
    return frequency / c.frequency_divisors[static_cast<size_t>(pair)];
  }
  switch (c.scaling.kind) {
    case RopeKind::plain:
      return frequency;
    case RopeKind::linear:
      return frequency / c.scaling.factor;
    case RopeKind::wavelength:
      return wavelength_frequency(frequency, c.scaling);
    case RopeKind::yarn:
      return yarn_frequency(frequency, pair, head_dim, c);
  }
  CHECK(false, "an unknown kind of rope");
}

}  // namespace

kernels::RopeOptions rope_options(const RopeConfig& config, int32_t head_dim) {
  CHECK(head_dim > 0 && head_dim % 2 == 0, "a rotation turns pairs");
  CHECK(config.frequency_divisors.empty() ||
            config.frequency_divisors.size() == static_cast<size_t>(head_dim / 2),
        "one divisor for each pair");
  std::vector<float> frequencies;
  for (int32_t pair = 0; pair < head_dim / 2; ++pair) {
    const double frequency = std::pow(double{config.theta}, -2.0 * pair / head_dim);
    frequencies.push_back(static_cast<float>(scaled_frequency(frequency, pair, head_dim, config)));
  }
  kernels::RopeOptions options;
  options.dims = head_dim;
  options.base = config.theta;
  options.inverse_frequencies = mx::array(frequencies.data(), {head_dim / 2}, mx::float32);
  if (config.scaling.kind == RopeKind::yarn && config.frequency_divisors.empty()) {
    options.amplitude = yarn_amplitude(config.scaling);
  }
  return options;
}

}  // namespace pome::layers
