#include "kernels/backend.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/counters.h"
#include "kernels/cpu_primitive.h"
#include "kernels/kernel_testing.h"

namespace pome::kernels {
namespace {

VariantCounter counter("backend_test/variant");

class Copy : public CpuPrimitive {
 public:
  const char* name() const override { return "Copy"; }
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    const auto* from = rows<float>(in[0]);
    auto* to = allocate<float>(out[0]);
    dispatch([from, to, count = in[0].size()] { std::copy(from, from + count, to); });
  }
};

TEST(Backend, SwitchesOwnKernelsOffAndOn) {
  EXPECT_TRUE(own_kernels_enabled());
  set_own_kernels_enabled(false);
  EXPECT_FALSE(own_cpu_kernels());
  set_own_kernels_enabled(true);
  EXPECT_EQ(own_cpu_kernels(), mx::default_device() == mx::Device::cpu);
}

TEST(Backend, NamesTheInstructionSetInUse) {
  std::string last;
  testing::for_each_target([&](const std::string& target) {
    EXPECT_EQ(cpu_target_name(), target);
    last = target;
  });
  EXPECT_EQ(cpu_target_name(), last);
}

TEST(VariantCounter, CountsRunsByName) {
  const uint64_t before = variant_runs("backend_test/variant");
  counter.add();
  counter.add();
  EXPECT_EQ(variant_runs("backend_test/variant"), before + 2);
  EXPECT_EQ(variant_runs("backend_test/no_such_variant"), 0u);
  const auto all = all_variant_runs();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [](const auto& v) { return v.name == "backend_test/variant"; }));
}

TEST(CpuPrimitive, ReadsStridedTransposedBroadcastAndReversedInputsInRowMajorOrder) {
  const mx::array a = testing::normal_array({3, 4, 5}, 1);
  const std::vector<mx::array> views{
      a,
      mx::transpose(a, {2, 0, 1}),
      mx::slice(a, mx::Shape{0, 1, 1}, mx::Shape{3, 3, 4}),
      mx::slice(a, mx::Shape{0, 0, 0}, mx::Shape{3, 4, 5}, mx::Shape{2, 3, 2}),
      mx::slice(a, mx::Shape{2, 3, 4}, mx::Shape{-4, -5, -6}, mx::Shape{-1, -1, -1}),
      mx::broadcast_to(mx::slice(a, mx::Shape{0, 0, 0}, mx::Shape{1, 4, 1}), {2, 4, 3})};
  for (const mx::array& view : views) {
    const mx::array copy(view.shape(), mx::float32, std::make_shared<Copy>(), {view});
    EXPECT_EQ(testing::values_of(copy), testing::values_of(view));
  }
}

TEST(CpuPrimitive, TakesEmptyInputs) {
  const mx::array empty = mx::zeros({0, 4});
  const mx::array copy(empty.shape(), mx::float32, std::make_shared<Copy>(), {empty});
  EXPECT_TRUE(testing::values_of(copy).empty());
}

}  // namespace
}  // namespace pome::kernels
