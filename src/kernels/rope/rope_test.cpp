#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "kernels/counters.h"
#include "kernels/kernel_testing.h"
#include "kernels/norm/norm.h"

namespace pome::kernels {
namespace {

using testing::array_of;
using testing::int_array;
using testing::normal_array;
using testing::normal_floats;
using testing::relative_error;
using testing::same_bits;
using testing::values_of;

std::vector<float> frequencies(int dims, float base) {
  std::vector<float> f;
  for (int i = 0; i < dims / 2; ++i) {
    f.push_back(1.0f / std::pow(base, static_cast<float>(2 * i) / static_cast<float>(dims)));
  }
  return f;
}

std::vector<float> loop(std::vector<float> x, const std::vector<int32_t>& positions, int heads,
                        int dim, int dims, const std::vector<float>& f, bool traditional,
                        float scale = 1.0f) {
  for (size_t t = 0; t < positions.size(); ++t) {
    for (int h = 0; h < heads; ++h) {
      float* head = x.data() + (t * heads + h) * dim;
      for (int i = 0; i < dims / 2; ++i) {
        const double angle = double{static_cast<float>(positions[t]) * scale * f[i]};
        float& a = head[traditional ? 2 * i : i];
        float& b = head[traditional ? 2 * i + 1 : i + dims / 2];
        const double first = double{a} * std::cos(angle) - double{b} * std::sin(angle);
        b = static_cast<float>(double{b} * std::cos(angle) + double{a} * std::sin(angle));
        a = static_cast<float>(first);
      }
    }
  }
  return x;
}

const std::vector<int32_t> kPositions{0, 1, 5, 100, 4095, 131071, 900000, 3000000};

TEST(Rope, AgreesWithALoopForEverySizeAndOrderOnEveryInstructionSet) {
  testing::for_each_target([](const std::string& target) {
    for (const int dim : {8, 24, 64, 96, 128, 256}) {
      for (const int dims : {dim, dim / 2}) {
        for (const bool traditional : {false, true}) {
          const std::vector<float> x = normal_floats(kPositions.size() * 3 * dim, 1);
          const RopeOptions options{.dims = dims, .traditional = traditional};
          const std::vector<float> y =
              values_of(rope(array_of(x, {8, 3, dim}), int_array(kPositions, {8}), options));
          const auto expected =
              loop(x, kPositions, 3, dim, dims, frequencies(dims, 10000.0f), traditional);
          EXPECT_LT(relative_error(y, expected), 5e-7) << target << ", " << dims << " of " << dim;
        }
      }
    }
  });
}

TEST(Rope, AgreesWithItsTwinForEveryOption) {
  const mx::array x = normal_array({4, 5, 64}, 2);
  const mx::array positions = int_array({3, 700, 0, 41}, {4});
  RopeOptions options{.dims = 64, .base = 500000.0f, .scale = 0.25f};
  const auto same = [&] {
    return relative_error(values_of(rope(x, positions, options)),
                          values_of(reference::rope(x, positions, options)));
  };
  EXPECT_LT(same(), 1e-5);
  options.traditional = true;
  EXPECT_LT(same(), 1e-5);
  options.inverse_frequencies = array_of(frequencies(64, 77.0f), {32});
  EXPECT_LT(same(), 1e-5);
  options.amplitude = 1.2f;
  EXPECT_LT(same(), 1e-5);
  options.traditional = false;
  options.dims = 32;
  options.inverse_frequencies = array_of(frequencies(32, 77.0f), {16});
  EXPECT_LT(same(), 1e-5);
}

TEST(Rope, AgreesWithItsTwinForFewDimsAndManyTokens) {
  std::vector<int32_t> many(150);
  std::iota(many.begin(), many.end(), 0);
  const mx::array x = normal_array({150, 3, 32}, 4);
  const mx::array positions = int_array(many, {150});
  for (const int dims : {2, 8, 24, 30, 32}) {
    for (const bool traditional : {false, true}) {
      RopeOptions options{.dims = dims, .scale = 0.5f, .traditional = traditional};
      options.amplitude = 1.2f;
      const std::vector<float> expected = values_of(reference::rope(x, positions, options));
      EXPECT_LT(relative_error(values_of(rope(x, positions, options)), expected), 1e-5) << dims;
      options.inverse_frequencies = array_of(frequencies(dims, 10000.0f), {dims / 2});
      EXPECT_LT(relative_error(values_of(reference::rope(x, positions, options)), expected), 1e-5);
    }
  }
}

TEST(Rope, RefusesDimsThatDoNotFit) {
  const mx::array x = normal_array({1, 1, 16}, 1);
  const mx::array positions = int_array({0}, {1});
  EXPECT_THROW(rope(x, positions, {.dims = 18}), std::invalid_argument);
  EXPECT_THROW(rope(x, positions, {.dims = 7}), std::invalid_argument);
  EXPECT_THROW(rope(x, positions, {.dims = 0}), std::invalid_argument);
  EXPECT_THROW(rope(x, int_array({0, 1}, {2}), {.dims = 16}), std::invalid_argument);
  EXPECT_THROW(rope(x, positions, {.dims = 16, .inverse_frequencies = normal_array({7}, 1)}),
               std::invalid_argument);
}

struct Step {
  mx::array qkv;
  mx::array positions = int_array({9, 10, 300, 0, 7}, {5});
  mx::array slots = int_array({25, 26, 40, 0, 63}, {5});
  KvPages pages;
  std::optional<HeadNorms> norms;

  Step(mx::Dtype dtype, bool with_norms, int dim = 64)
      : qkv(normal_array({5, (6 + 2 * 2) * dim}, 3)),
        pages{mx::contiguous(mx::zeros({4, 16, 2, dim}, dtype)),
              mx::contiguous(mx::zeros({4, 16, 2, dim}, dtype))} {
    mx::eval(pages.k, pages.v);
    if (with_norms) {
      norms = HeadNorms{normal_array({dim}, 4), normal_array({dim}, 5), 1e-6f};
    }
  }
};

TEST(RopeAppend, GivesTheSameBitsAsNormRopeAndAppendOneAfterAnother) {
  for (const auto dtype : {mx::float32, mx::float16, mx::bfloat16}) {
    for (const bool with_norms : {false, true}) {
      const RopeOptions options{.dims = 64, .base = 1e6f};
      const Step one(dtype, with_norms);
      const Step other(dtype, with_norms);
      const RopedQuery fused =
          rope_append(one.qkv, one.positions, one.pages, one.slots, options, one.norms);
      const mx::array heads = mx::reshape(other.qkv, {5, 10, 64});
      mx::array q = mx::slice(heads, mx::Shape{0, 0, 0}, mx::Shape{5, 6, 64});
      mx::array k = mx::slice(heads, mx::Shape{0, 6, 0}, mx::Shape{5, 8, 64});
      const mx::array v = mx::slice(heads, mx::Shape{0, 8, 0}, mx::Shape{5, 10, 64});
      if (with_norms) {
        q = rms_norm(q, other.norms->q, other.norms->eps);
        k = rms_norm(k, other.norms->k, other.norms->eps);
      }
      const KvPages pages =
          paged_append(other.pages, rope(k, other.positions, options), v, other.slots);
      EXPECT_TRUE(same_bits(values_of(fused.q), values_of(rope(q, other.positions, options))));
      EXPECT_TRUE(same_bits(values_of(mx::astype(fused.pages.k, mx::float32)),
                            values_of(mx::astype(pages.k, mx::float32))));
      EXPECT_TRUE(same_bits(values_of(mx::astype(fused.pages.v, mx::float32)),
                            values_of(mx::astype(pages.v, mx::float32))));
    }
  }
}

TEST(RopeAppend, CodesIntegersAsPagedAppendDoes) {
  for (const auto element : {kvcache::KvElement::int8, kvcache::KvElement::int4}) {
    const Step step(mx::float32, true);
    const CodedHeads coded{64, {.element = element, .group_size = 32}};
    const auto bytes = static_cast<int>(coded.format.head_bytes(64));
    const auto pool = [&] {
      const auto half = [&] { return mx::contiguous(mx::zeros({4, 16, 2, bytes}, mx::uint8)); };
      return KvPages{half(), half(), coded};
    };
    const RopeOptions options{.dims = 64};
    const RopedQuery fused =
        rope_append(step.qkv, step.positions, pool(), step.slots, options, step.norms);
    const mx::array heads = mx::reshape(step.qkv, {5, 10, 64});
    const auto part = [&](int first, int last) {
      return mx::slice(heads, mx::Shape{0, first, 0}, mx::Shape{5, last, 64});
    };
    const mx::array k =
        rope(rms_norm(part(6, 8), step.norms->k, step.norms->eps), step.positions, options);
    const KvPages pages = paged_append(pool(), k, part(8, 10), step.slots);
    EXPECT_TRUE(same_bits(values_of<uint8_t>(fused.pages.k), values_of<uint8_t>(pages.k)));
    EXPECT_TRUE(same_bits(values_of<uint8_t>(fused.pages.v), values_of<uint8_t>(pages.v)));
    ASSERT_TRUE(fused.pages.coded);
    EXPECT_EQ(fused.pages.head_dim(), 64);
  }
}

TEST(RopeAppend, AgreesWithItsTwin) {
  for (const int dim : {64, 40}) {
    const RopeOptions options{.dims = dim};
    const Step one(mx::float32, true, dim);
    const Step other(mx::float32, true, dim);
    const uint64_t before = variant_runs("rope/rope_append");
    const RopedQuery fused =
        rope_append(one.qkv, one.positions, one.pages, one.slots, options, one.norms);
    const RopedQuery plain = reference::rope_append(other.qkv, other.positions, other.pages,
                                                    other.slots, options, other.norms);
    EXPECT_LT(relative_error(values_of(fused.q), values_of(plain.q)), 1e-5);
    EXPECT_LT(relative_error(values_of(fused.pages.k), values_of(plain.pages.k)), 1e-5);
    EXPECT_LT(relative_error(values_of(fused.pages.v), values_of(plain.pages.v)), 1e-5);
    EXPECT_EQ(variant_runs("rope/rope_append"), before + 1);
  }
}

TEST(RopeAppend, KeepsThePoolsBuffers) {
  const Step step(mx::float16, false);
  const void* k = step.pages.k.data<char>();
  const void* v = step.pages.v.data<char>();
  RopedQuery out = rope_append(step.qkv, step.positions, step.pages, step.slots, {.dims = 64});
  mx::eval(out.q, out.pages.k, out.pages.v);
  EXPECT_EQ(out.pages.k.data<char>(), k);
  EXPECT_EQ(out.pages.v.data<char>(), v);
}

TEST(RopeAppend, GivesTheSameBitsForEveryNumberOfThreads) {
  const mx::array qkv = normal_array({200, 10 * 64}, 6);
  std::vector<int32_t> counting(200);
  for (int i = 0; i < 200; ++i) {
    counting[i] = i;
  }
  const auto run = [&] {
    const KvPages pages{mx::contiguous(mx::zeros({13, 16, 2, 64}, mx::float16)),
                        mx::contiguous(mx::zeros({13, 16, 2, 64}, mx::float16))};
    const RopedQuery out = rope_append(qkv, int_array(counting, {200}), pages,
                                       int_array(counting, {200}), {.dims = 64});
    mx::eval(out.q, out.pages.k);
    std::vector<float> all = values_of(out.q);
    const std::vector<float> k = values_of(mx::astype(out.pages.k, mx::float32));
    all.insert(all.end(), k.begin(), k.end());
    return all;
  };
  const std::vector<float> expected = run();
  testing::for_each_thread_count(
      [&](int threads) { EXPECT_TRUE(same_bits(run(), expected)) << threads << " threads"; });
}

}  // namespace
}  // namespace pome::kernels
