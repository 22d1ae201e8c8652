#pragma once

#include "kernels/highway_targets.h"

#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/thread_pool.h"
#include "tensor/mlx.h"

// What the kernel tests share.
namespace pome::kernels::testing {

// Seeded numbers, so that a failure repeats.
inline std::vector<float> normal_floats(size_t count, uint32_t seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

inline mx::array array_of(const std::vector<float>& values, const mx::Shape& shape) {
  return mx::array(values.begin(), shape, mx::float32);
}

inline mx::array normal_array(const mx::Shape& shape, uint32_t seed, float spread = 1.0f) {
  size_t count = 1;
  for (const auto extent : shape) {
    count *= static_cast<size_t>(extent);
  }
  return array_of(normal_floats(count, seed, spread), shape);
}

inline mx::array int_array(const std::vector<int32_t>& values, const mx::Shape& shape) {
  return mx::array(values.begin(), shape, mx::int32);
}

// The elements in row-major order, after evaluation.
template <typename T = float>
std::vector<T> values_of(mx::array a) {
  a = mx::contiguous(a);
  a.eval();
  return std::vector<T>(a.data<T>(), a.data<T>() + a.size());
}

// |a - b| over the norm of b, both as vectors.
inline double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double d = double{a[i]} - double{b[i]};
    difference += d * d;
    norm += double{b[i]} * double{b[i]};
  }
  return std::sqrt(difference / (norm > 0.0 ? norm : 1.0));
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Calls body(name) with the CPU kernels held to each instruction set of this machine, the best one
// last.
template <typename Body>
void for_each_target(Body body) {
  const int64_t supported = hwy::SupportedTargets();
  const int64_t known = supported & HWY_TARGETS & ((int64_t{1} << 61) - 1);
  for (int bit = 60; bit >= 0; --bit) {
    const int64_t target = int64_t{1} << bit;
    if ((known & target) == 0) {
      continue;
    }
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(std::string(hwy::TargetName(target)));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Calls body(threads) with pools of several sizes and leaves the default.
template <typename Body>
void for_each_thread_count(Body body) {
  const int before = thread_count();
  for (const int threads : {1, 2, 3, 5}) {
    set_thread_count(threads);
    body(threads);
  }
  set_thread_count(before);
}

}  // namespace pome::kernels::testing
