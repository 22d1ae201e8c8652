// What a GPU computes from plain operations, beside what the CPU's own kernels compute from the
// same inputs. Skipped where MLX has no GPU.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/backend.h"
#include "kernels/kernel_testing.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/norm.h"
#include "kernels/rope/rope.h"
#include "kernels/sample/sample.h"
#include "kvpool/kv_pool.h"
#include "kvpool/page_memory.h"

namespace pome::kernels {
namespace {

using testing::int_array;
using testing::normal_array;
using testing::relative_error;
using testing::values_of;

class GpuTwins : public ::testing::Test {
 protected:
  void SetUp() override {
    if (computes_on_cpu()) {
      GTEST_SKIP() << "MLX has no GPU here";
    }
  }
  void TearDown() override { mx::set_default_device(device_); }

  using Build = std::function<mx::array()>;

  std::vector<float> on_gpu(const Build& build) {
    EXPECT_FALSE(own_cpu_kernels());
    return values_of(build());
  }
  std::vector<float> on_cpu(const Build& build) {
    mx::set_default_device(mx::Device::cpu);
    EXPECT_TRUE(own_cpu_kernels());
    std::vector<float> values = values_of(build());
    mx::set_default_device(device_);
    return values;
  }
  void expect_same(const Build& build, double tolerance) {
    const std::vector<float> gpu = on_gpu(build);
    const std::vector<float> cpu = on_cpu(build);
    ASSERT_EQ(gpu.size(), cpu.size());
    EXPECT_LT(relative_error(gpu, cpu), tolerance);
  }

  const mx::Device device_ = mx::default_device();
};

// f32 with f32 accumulation on both sides: what differs is the order of the sums and the last bits
// of functions such as exp.
constexpr double kFloats = 2e-6;

TEST_F(GpuTwins, AGpuHasNoOwnCpuKernelsAndNoPoolInMappedMemory) {
  EXPECT_TRUE(own_kernels_enabled());
  EXPECT_FALSE(own_cpu_kernels());
  EXPECT_FALSE(kvpool::PageMemory::commits_as_used());
}

TEST_F(GpuTwins, NormsAndSums) {
  for (const int columns : {8, 100, 1024}) {
    const mx::array x = normal_array({5, columns}, 1);
    const mx::array residual = normal_array({5, columns}, 2);
    const mx::array w = normal_array({columns}, 3);
    expect_same([&] { return rms_norm(x, w, 1e-6f); }, kFloats);
    expect_same([&] { return add_rms_norm(x, residual, w, 1e-6f).normed; }, kFloats);
    expect_same([&] { return add_rms_norm(x, residual, w, 1e-6f).sum; }, kFloats);
  }
}

TEST_F(GpuTwins, GatedActivations) {
  const mx::array gate_up = normal_array({3, 2 * 333}, 4, 3.0f);
  for (const auto activation : {GatedActivation::silu, GatedActivation::gelu_tanh}) {
    expect_same([&] { return gated_split(gate_up, activation); }, kFloats);
  }
}

TEST_F(GpuTwins, RotationsAtSmallAndLargePositions) {
  const mx::array x = normal_array({4, 3, 64}, 5);
  const mx::array positions = int_array({0, 1, 500, 30000}, {4});
  for (const bool traditional : {false, true}) {
    const RopeOptions options{.dims = 48, .traditional = traditional, .amplitude = 1.3f};
    // Angles of 30,000 radians carry an error of 30,000 · 2^-24 = 1.8e-3 in f32.
    expect_same([&] { return rope(x, positions, options); }, 2e-3);
  }
}

// MLX's own kernel does not start for so few dims and so many tokens.
TEST_F(GpuTwins, RotationsOfFewDimsOfManyTokens) {
  const mx::array x = normal_array({300, 5, 32}, 5);
  std::vector<int32_t> positions(300);
  std::iota(positions.begin(), positions.end(), 0);
  for (const int dims : {8, 24, 32}) {
    expect_same([&] { return rope(x, int_array(positions, {300}), {.dims = dims}); }, 5e-5);
  }
}

TEST_F(GpuTwins, DenseProducts) {
  const mx::array bias = normal_array({131}, 6);
  for (const int rows : {1, 2, 7, 64}) {
    const mx::array x = normal_array({rows, 200}, 7);
    const mx::array w = normal_array({131, 200}, 8);
    expect_same([&] { return matmul_nt(x, w, bias); }, kFloats);
    // The activations are rounded to the weights' dtype.
    const mx::array half = mx::astype(w, mx::float16);
    expect_same([&] { return matmul_nt(x, half, bias); }, 1e-3);
    const mx::array brain = mx::astype(w, mx::bfloat16);
    expect_same([&] { return matmul_nt(x, brain, bias); }, 8e-3);
  }
}

TEST_F(GpuTwins, RowsOfAMatrixAndZerosForUnknownOnes) {
  const mx::array w = mx::astype(normal_array({20, 40}, 9), mx::float16);
  expect_same([&] { return matrix_rows(int_array({3, -1, 20, 19}, {4}), w); }, 1e-30);
}

// Two prompts and a decode row, appended in two steps; attention of the last one.
mx::array attended(kvcache::KvElement element, const AttentionOptions& options) {
  kvcache::CacheSpec spec;
  spec.page_tokens = 16;
  kvcache::CacheGroup group{.kind = kvcache::GroupKind::full, .layers = {0}};
  group.kv_heads = 2;
  group.head_dim = 64;
  spec.groups = {group};
  kvpool::KvPool pool(spec, {.group_pages = {12}, .format = {.element = element}});
  constexpr int kHeads = 6;
  const auto step = [&](int tokens, const std::vector<int32_t>& slots,
                        const std::vector<int32_t>& positions, uint32_t seed) {
    const mx::array qkv = normal_array({tokens, (kHeads + 4) * 64}, seed);
    const HeadNorms norms{normal_array({64}, 20), normal_array({64}, 21), 1e-6f};
    return pool.rope_append(0, qkv, int_array(positions, {tokens}), int_array(slots, {tokens}),
                            {.dims = 64}, norms);
  };
  std::vector<int32_t> slots, positions;
  for (int i = 0; i < 40; ++i) {  // pages 5, 2 and 9
    slots.push_back((i < 16 ? 5 : (i < 32 ? 2 : 9)) * 16 + i % 16);
    positions.push_back(i);
  }
  step(40, slots, positions, 11);
  mx::eval(pool.handles());
  const mx::array q = step(4, {9 * 16 + 8, 3 * 16, 3 * 16 + 1, 3 * 16 + 2}, {40, 0, 1, 2}, 12);
  const PagedRows rows{.page_table = int_array({5, 2, 9, 3, 0, 0}, {2, 3}),
                       .row_offsets = int_array({0, 1, 4}, {3}),
                       .kv_lengths = int_array({41, 3}, {2}),
                       .row_tokens = {1, 3}};
  return pool.attention(0, q, rows, options);
}

TEST_F(GpuTwins, AppendsAndAttentionOverPages) {
  for (const int32_t window : {0, 9}) {
    for (const float softcap : {0.0f, 20.0f}) {
      const AttentionOptions options{
          .scale = 0.125f, .window = window, .softcap = softcap, .sinks = normal_array({6}, 22)};
      const auto same = [&](kvcache::KvElement element, double tolerance) {
        expect_same([&] { return attended(element, options); }, tolerance);
      };
      same(kvcache::KvElement::float32, 1e-5);
      // Values at the border between two stored ones may be rounded either way.
      same(kvcache::KvElement::float16, 5e-4);
      same(kvcache::KvElement::bfloat16, 4e-3);
      same(kvcache::KvElement::int8, 5e-3);
      same(kvcache::KvElement::int4, 5e-2);
    }
  }
}

std::vector<SampleRow> sample_rows() {
  std::vector<SampleRow> rows;
  for (int32_t i = 0; i < 12; ++i) {
    SampleRow row{.place = i % 3, .seed = 77u + static_cast<uint64_t>(i), .output_index = i};
    row.temperature = i % 4 == 0 ? 0.0f : 0.6f + 0.1f * static_cast<float>(i);
    row.top_k = i % 3 == 1 ? 40 : -1;
    row.top_p = i % 2 == 1 ? 0.9f : 1.0f;
    row.min_p = i % 5 == 4 ? 0.02f : 0.0f;
    if (i % 4 == 3) {
      row.edits = {{.token = 5, .repetition = 1.3f, .add = -0.5f}, {.token = 900, .add = 4.0f}};
    }
    rows.push_back(row);
  }
  return rows;
}

TEST_F(GpuTwins, DrawsTheSameTokensFromTheSameLogits) {
  for (const int vocabulary : {1000, 30011}) {
    const mx::array logits = normal_array({3, vocabulary}, 13, 4.0f);
    const Build tokens = [&] {
      return mx::astype(sample(logits, sample_rows()).tokens, mx::float32);
    };
    EXPECT_EQ(on_gpu(tokens), on_cpu(tokens));
  }
}

TEST_F(GpuTwins, MarksBrokenRowsAndNoOthers) {
  std::vector<float> numbers = testing::normal_floats(3 * 500, 14);
  numbers[700] = std::numeric_limits<float>::quiet_NaN();
  const mx::array logits = testing::array_of(numbers, {3, 500});
  const Build broken = [&] {
    return mx::astype(
        sample(logits, {SampleRow{.place = 0}, SampleRow{.place = 1}, SampleRow{.place = 2}})
            .broken,
        mx::float32);
  };
  EXPECT_EQ(on_gpu(broken), (std::vector<float>{0.0f, 1.0f, 0.0f}));
  EXPECT_EQ(on_cpu(broken), (std::vector<float>{0.0f, 1.0f, 0.0f}));
}

TEST_F(GpuTwins, LogProbabilitiesAndTheirRanks) {
  const mx::array logits = normal_array({2, 5003}, 15, 3.0f);
  const mx::array chosen = int_array({17, 5002}, {2});
  const auto both = [&] {
    LogprobRows rows;
    rows.rows = {{.place = 1, .token = 0, .top = 5, .requested_begin = 0, .requested_end = 2},
                 {.place = 0, .token = 1, .top = 3}};
    rows.requested = {1, 4000};
    return logprobs(logits, chosen, rows);
  };
  expect_same([&] { return both().values; }, 1e-6);
  const Build ids = [&] { return mx::astype(both().ids, mx::float32); };
  EXPECT_EQ(on_gpu(ids), on_cpu(ids));
}

}  // namespace
}  // namespace pome::kernels
