#include "kernels/activation/activation.h"

#include <gtest/gtest.h>

#include "kernels/kernel_testing.h"

namespace pome::kernels {
namespace {

using testing::array_of;
using testing::normal_array;
using testing::normal_floats;
using testing::relative_error;
using testing::same_bits;
using testing::values_of;

double activation_of(double g, GatedActivation activation) {
  return activation == GatedActivation::silu
             ? g / (1.0 + std::exp(-g))
             : 0.5 * g * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (g + 0.044715 * g * g * g)));
}

TEST(Gated, AgreesWithALoopAndItsTwinAtEverySizeOnEveryInstructionSet) {
  testing::for_each_target([](const std::string& target) {
    for (const int features : {1, 5, 16, 31, 64, 1000}) {
      for (const auto activation : {GatedActivation::silu, GatedActivation::gelu_tanh}) {
        const std::vector<float> gate = normal_floats(3 * features, 1, 3.0f);
        const std::vector<float> up = normal_floats(3 * features, 2);
        std::vector<float> expected;
        for (size_t i = 0; i < gate.size(); ++i) {
          expected.push_back(
              static_cast<float>(activation_of(double{gate[i]}, activation) * double{up[i]}));
        }
        const mx::array g = array_of(gate, {3, features});
        const mx::array u = array_of(up, {3, features});
        const std::vector<float> y = values_of(gated(g, u, activation));
        EXPECT_LT(relative_error(y, expected), 1e-6) << target << ", " << features;
        EXPECT_LT(relative_error(y, values_of(reference::gated(g, u, activation))), 1e-6);
      }
    }
  });
}

TEST(Gated, ReadsTheHalvesOfOneFusedArrayAlike) {
  const mx::array gate = normal_array({4, 33}, 3);
  const mx::array up = normal_array({4, 33}, 4);
  const mx::array fused = mx::concatenate({gate, up}, 1);
  EXPECT_TRUE(same_bits(values_of(gated_split(fused, GatedActivation::silu)),
                        values_of(silu_mul(gate, up))));
  EXPECT_TRUE(same_bits(values_of(gated_split(fused, GatedActivation::gelu_tanh)),
                        values_of(gelu_tanh_mul(gate, up))));
  EXPECT_LT(relative_error(values_of(gated_split(fused, GatedActivation::silu)),
                           values_of(reference::gated_split(fused, GatedActivation::silu))),
            1e-6);
}

TEST(Gated, StaysFiniteForGatesFarFromZero) {
  const mx::array gate = array_of({-1e30f, -200.0f, -88.0f, 0.0f, 88.0f, 200.0f, 1e30f}, {7});
  const mx::array up = mx::ones({7});
  const std::vector<float> y = values_of(silu_mul(gate, up));
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(y[i], 0.0f, 1e-6f);
  }
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_EQ(y[4], 88.0f);
  EXPECT_EQ(y[5], 200.0f);
  EXPECT_EQ(y[6], 1e30f);
}

TEST(Gated, RefusesShapesThatDoNotMatch) {
  EXPECT_THROW(silu_mul(normal_array({2, 4}, 1), normal_array({2, 5}, 2)), std::invalid_argument);
  EXPECT_THROW(gated_split(normal_array({2, 5}, 1), GatedActivation::silu), std::invalid_argument);
}

}  // namespace
}  // namespace pome::kernels
