#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "kernels/counters.h"
#include "kernels/kernel_testing.h"

namespace pome::kernels {
namespace {

using testing::array_of;
using testing::normal_array;
using testing::normal_floats;
using testing::relative_error;
using testing::same_bits;
using testing::values_of;

std::vector<float> loop(const std::vector<float>& x, const std::vector<float>& w, float eps) {
  const size_t dim = w.size();
  std::vector<float> y(x.size());
  for (size_t r = 0; r < x.size() / dim; ++r) {
    double squares = 0.0;
    for (size_t i = 0; i < dim; ++i) {
      squares += double{x[r * dim + i]} * double{x[r * dim + i]};
    }
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(dim) + double{eps});
    for (size_t i = 0; i < dim; ++i) {
      y[r * dim + i] = static_cast<float>(double{x[r * dim + i]} * factor * double{w[i]});
    }
  }
  return y;
}

TEST(RmsNorm, AgreesWithALoopAndItsTwinAtEverySizeOnEveryInstructionSet) {
  testing::for_each_target([](const std::string& target) {
    for (const int dim : {1, 3, 8, 15, 16, 17, 64, 100, 129, 576, 1023}) {
      const std::vector<float> x = normal_floats(5 * dim, 1);
      const std::vector<float> w = normal_floats(dim, 2);
      const mx::array xa = array_of(x, {5, dim});
      const mx::array wa = array_of(w, {dim});
      const std::vector<float> y = values_of(rms_norm(xa, wa, 1e-5f));
      EXPECT_LT(relative_error(y, loop(x, w, 1e-5f)), 1e-6) << target << ", " << dim;
      EXPECT_LT(relative_error(y, values_of(reference::rms_norm(xa, wa, 1e-5f))), 1e-6);
    }
  });
}

TEST(RmsNorm, NormsEveryAxisButTheLastAsRows) {
  const mx::array x = normal_array({3, 4, 24}, 3);
  const mx::array w = normal_array({24}, 4);
  EXPECT_TRUE(same_bits(values_of(rms_norm(x, w, 1e-6f)),
                        values_of(rms_norm(mx::reshape(x, {12, 24}), w, 1e-6f))));
}

TEST(AddRmsNorm, GivesTheSameBitsAsAddingAndThenNorming) {
  for (const int dim : {7, 64, 577}) {
    const mx::array x = normal_array({6, dim}, 5);
    const mx::array residual = normal_array({6, dim}, 6);
    const mx::array w = normal_array({dim}, 7);
    const uint64_t before = variant_runs("norm/add_rms_norm");
    const SumAndNorm both = add_rms_norm(x, residual, w, 1e-6f);
    EXPECT_TRUE(same_bits(values_of(both.sum), values_of(x + residual)));
    EXPECT_TRUE(same_bits(values_of(both.normed), values_of(rms_norm(x + residual, w, 1e-6f))));
    EXPECT_EQ(variant_runs("norm/add_rms_norm"), before + 1);
  }
}

TEST(RmsNorm, GivesARowTheSameBitsAloneInACrowdAndForEveryNumberOfThreads) {
  const std::vector<float> x = normal_floats(200 * 576, 8);
  const mx::array w = normal_array({576}, 9);
  const std::vector<float> row(x.begin() + 150 * 576, x.begin() + 151 * 576);
  const std::vector<float> alone = values_of(rms_norm(array_of(row, {1, 576}), w, 1e-5f));
  testing::for_each_thread_count([&](int threads) {
    const std::vector<float> y = values_of(rms_norm(array_of(x, {200, 576}), w, 1e-5f));
    EXPECT_TRUE(same_bits(std::vector<float>(y.begin() + 150 * 576, y.begin() + 151 * 576), alone))
        << threads << " threads";
  });
}

TEST(RmsNorm, RefusesAWeightOfAnotherSize) {
  EXPECT_THROW(rms_norm(normal_array({2, 8}, 1), normal_array({7}, 2), 1e-5f),
               std::invalid_argument);
}

TEST(RmsNorm, TakesThePlainPathWhenOwnKernelsAreOff) {
  const mx::array x = normal_array({2, 64}, 1);
  const mx::array w = normal_array({64}, 2);
  const uint64_t before = variant_runs("norm/rms_norm");
  set_own_kernels_enabled(false);
  values_of(rms_norm(x, w, 1e-5f));
  set_own_kernels_enabled(true);
  EXPECT_EQ(variant_runs("norm/rms_norm"), before);
  values_of(rms_norm(x, w, 1e-5f));
  EXPECT_EQ(variant_runs("norm/rms_norm"), before + 1);
}

}  // namespace
}  // namespace pome::kernels
