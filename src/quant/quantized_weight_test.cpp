#include "quant/quantized_weight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "quant/block_format.h"
#include "quant/golden_blocks.h"
#include "quant/quantized_ops.h"
#include "tensor/dense.h"
#include "tensor/files/test_files.h"

namespace pome::quant {
namespace {

using tensor::Encoding;
using tensor::LoadError;
using tensor::test::GgufBuilder;
using tensor::test::TempFolder;
using testing::HasSubstr;

// GGUF's type numbers.
uint32_t gguf_type(Encoding encoding) {
  for (uint32_t type = 0; type < 64; ++type) {
    if (tensor::encoding_from_gguf(type) == encoding) {
      return type;
    }
  }
  return 99;
}

// Chooses the layout, and restores what chose it: own kernels are those of the CPU, plain
// operations run where MLX runs by itself.
class OwnKernels {
 public:
  explicit OwnKernels(bool enabled) {
    kernels::set_own_kernels_enabled(enabled);
    if (enabled) {
      mx::set_default_device(mx::Device::cpu);
    }
  }
  ~OwnKernels() {
    kernels::set_own_kernels_enabled(before_);
    mx::set_default_device(device_before_);
  }
  OwnKernels(const OwnKernels&) = delete;
  OwnKernels& operator=(const OwnKernels&) = delete;

 private:
  const bool before_ = kernels::own_kernels_enabled();
  const mx::Device device_before_ = mx::default_device();
};

tensor::Checkpoint open(const TempFolder& folder, const GgufBuilder& builder) {
  auto checkpoint = tensor::Checkpoint::open(folder.write("model.gguf", builder.build()));
  EXPECT_TRUE(checkpoint) << (checkpoint ? "" : checkpoint.error().message);
  return *checkpoint;
}

GgufBuilder& add_golden(GgufBuilder& builder, Encoding encoding) {
  const test::GoldenBlocks golden = test::read_golden(encoding);
  const std::string name = std::string(tensor::encoding_name(encoding)) + ".weight";
  return builder.tensor(name, gguf_type(encoding),
                        {static_cast<uint64_t>(golden.rows), static_cast<uint64_t>(golden.columns)},
                        golden.blocks());
}

std::vector<float> values_of(mx::array a) {
  a = mx::contiguous(mx::astype(a, mx::float32));
  a.eval();
  return {a.data<float>(), a.data<float>() + a.size()};
}

std::string load_error(const QuantizedModule& module) {
  try {
    (void)load_quantized(module);
  } catch (const LoadError& error) {
    return error.what();
  }
  return "no error";
}

class EachType : public testing::TestWithParam<Encoding> {
 protected:
  EachType() : checkpoint_(open(folder_, add_golden(builder_, GetParam()))) {}
  QuantizedWeight load(mx::Dtype dtype) const {
    const tensor::Weights w(checkpoint_, {}, dtype);
    return load_quantized({w / tensor::encoding_name(GetParam())});
  }
  void expect_golden(const QuantizedWeight& w) const {
    const test::GoldenBlocks golden = test::read_golden(GetParam());
    const std::vector<float> values = values_of(w.unpack());
    const auto columns = static_cast<size_t>(golden.columns);
    ASSERT_EQ(values.size(), static_cast<size_t>(golden.rows) * columns);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], golden.value(static_cast<int32_t>(i / columns), i % columns)) << i;
    }
  }

  TempFolder folder_;
  GgufBuilder builder_;
  tensor::Checkpoint checkpoint_;
};

TEST_P(EachType, PanelsHoldTheReferenceValuesExactly) {
  const OwnKernels own(true);
  const QuantizedWeight w = load(mx::float32);
  EXPECT_EQ(w.layout(), Layout::panels);
  EXPECT_EQ(w.form().origin, tensor::encoding_name(GetParam()));
  EXPECT_EQ(w.form().bits, block_form(GetParam()).code_bits <= 4 ? 4 : 8);
  EXPECT_EQ(w.form().group_size, block_form(GetParam()).group_size);
  expect_golden(w);
}

TEST_P(EachType, TheLayoutForMlxHoldsTheReferenceValuesExactlyInFloat32) {
  const OwnKernels own(false);
  const QuantizedWeight w = load(mx::float32);
  const bool narrow_groups =
      GetParam() == Encoding::q2_k || GetParam() == Encoding::q3_k || GetParam() == Encoding::q6_k;
  EXPECT_EQ(w.layout(), narrow_groups ? Layout::dense : Layout::affine);
  if (w.layout() == Layout::dense) {
    expect_golden(w);
    return;
  }
  // MLX multiplies and adds with two roundings.
  const test::GoldenBlocks golden = test::read_golden(GetParam());
  const std::vector<float> values = values_of(w.unpack());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t columns = static_cast<size_t>(golden.columns);
    const float expected = golden.value(static_cast<int32_t>(i / columns), i % columns);
    ASSERT_NEAR(values[i], expected, 1e-6 * (1.0 + std::abs(expected)) * 16) << i;
  }
}

TEST_P(EachType, RowsAndProductsAgreeBetweenLayouts) {
  const auto compute = [&](bool own_kernels) {
    const OwnKernels own(own_kernels);
    const QuantizedWeight w = load(mx::float32);
    const int columns = static_cast<int>(w.columns());
    const mx::array x = mx::reshape(mx::sin(mx::arange(0, 3 * columns, mx::float32)), {3, columns});
    const mx::array ids = mx::array({1, 0, -1, 2, 1});
    return std::pair(values_of(quantized_matmul(x, w)), values_of(quantized_rows(ids, w)));
  };
  const auto own = compute(true);
  const auto plain = compute(false);
  ASSERT_EQ(own.first.size(), plain.first.size());
  float largest = 0.0f;
  for (const float value : plain.first) {
    largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < own.first.size(); ++i) {
    EXPECT_NEAR(own.first[i], plain.first[i], 1e-3f * largest) << i;
  }
  ASSERT_EQ(own.second.size(), plain.second.size());
  const size_t columns = own.second.size() / 5;
  for (size_t i = 0; i < own.second.size(); ++i) {
    EXPECT_NEAR(own.second[i], plain.second[i], 1e-5f * (1.0f + std::abs(plain.second[i]))) << i;
    if (i / columns == 2 || i / columns == 3) {  // ids -1 and 2 are outside
      EXPECT_EQ(own.second[i], 0.0f);
      EXPECT_EQ(plain.second[i], 0.0f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, EachType, testing::ValuesIn(test::kBlockEncodings),
                         [](const auto& param) {
                           return std::string(tensor::encoding_name(param.param));
                         });

TEST(QuantizedWeight, Float16KeepsTheScalesOfQ4_0Q4_1AndQ8_0Exactly) {
  const OwnKernels own(false);
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q4_1, Encoding::q8_0}) {
    const TempFolder folder;
    GgufBuilder builder;
    const int bytes = tensor::block_bytes(encoding);
    std::string block(static_cast<size_t>(bytes), '\x5a');
    block[0] = '\x37', block[1] = '\x2b';  // 0.0564…, needs all of f16's bits
    const auto checkpoint =
        open(folder, builder.tensor("m.weight", gguf_type(encoding), {1, 32}, block));
    const tensor::Weights w(checkpoint, {}, mx::float16);
    const QuantizedWeight q = load_quantized({w / "m"});
    EXPECT_EQ(q.affine().scales.dtype(), mx::float16);
    EXPECT_EQ(values_of(q.affine().scales)[0], tensor::f16_to_f32(0x2b37));
    const float zero = encoding == Encoding::q8_0 ? 128.0f : 8.0f;
    const float bias = encoding == Encoding::q4_1 ? tensor::f16_to_f32(0x5a5a)
                                                  : -zero * tensor::f16_to_f32(0x2b37);
    EXPECT_EQ(values_of(q.affine().biases)[0], bias);
  }
}

TEST(QuantizedWeight, KTypesKeepTheirCodesOnAGpuAndOnlyTheirScalesAreRounded) {
  const OwnKernels own(false);
  for (const Encoding encoding : {Encoding::q4_k, Encoding::q5_k}) {
    const TempFolder folder;
    GgufBuilder builder;
    const auto checkpoint = open(folder, add_golden(builder, encoding));
    const auto load = [&](mx::Dtype dtype) {
      return load_quantized(
          {tensor::Weights(checkpoint, {}, dtype) / tensor::encoding_name(encoding)});
    };
    const AffineArrays exact = load(mx::float32).affine();
    for (const mx::Dtype dtype : {mx::float16, mx::bfloat16}) {
      const AffineArrays kept = load(dtype).affine();
      EXPECT_TRUE(mx::array_equal(kept.weight, exact.weight).item<bool>());
      EXPECT_EQ(kept.scales.dtype(), dtype);
      EXPECT_EQ(values_of(kept.scales), values_of(mx::astype(exact.scales, dtype)));
      EXPECT_EQ(values_of(kept.biases), values_of(mx::astype(exact.biases, dtype)));
    }
  }
}

TEST(QuantizedWeight, RowsComeInTheOrderThatTheMapNames) {
  const TempFolder folder;
  GgufBuilder builder;
  const auto checkpoint = open(folder, add_golden(builder, Encoding::q4_k));
  tensor::WeightMap map;
  map.row_order = [](std::string_view, const std::vector<int64_t>&) {
    return std::vector<int32_t>{1, 0};
  };
  const auto in_order =
      values_of(load_quantized({tensor::Weights(checkpoint, {}, mx::float32) / "Q4_K"}).unpack());
  const auto swapped =
      values_of(load_quantized({tensor::Weights(checkpoint, map, mx::float32) / "Q4_K"}).unpack());
  const size_t half = in_order.size() / 2;
  EXPECT_TRUE(std::equal(in_order.begin(), in_order.begin() + static_cast<long>(half),
                         swapped.begin() + static_cast<long>(half)));
  EXPECT_TRUE(
      std::equal(in_order.begin() + static_cast<long>(half), in_order.end(), swapped.begin()));
}

TEST(QuantizedWeight, StackedMatricesAreOneMatrixWithTheirRowsInOrder) {
  const TempFolder folder;
  GgufBuilder builder;
  const std::string blocks = test::read_golden(Encoding::q8_0).blocks();
  const test::GoldenBlocks golden = test::read_golden(Encoding::q8_0);
  const auto rows = static_cast<uint64_t>(golden.rows);
  const auto columns = static_cast<uint64_t>(golden.columns);
  const auto checkpoint =
      open(folder, builder.tensor("a.weight", 8, {rows, columns}, blocks)
                       .tensor("b.weight", 8, {1, columns}, blocks.substr(0, golden.row_bytes)));
  const tensor::Weights w(checkpoint, {}, mx::float32);
  const std::vector<QuantizedModule> modules = {{w / "a"}, {w / "b"}};
  ASSERT_TRUE(can_stack(modules));
  const QuantizedWeight stacked = load_quantized(modules);
  EXPECT_EQ(stacked.rows(), golden.rows + 1);
  const std::vector<float> values = values_of(stacked.unpack());
  for (size_t k = 0; k < columns; ++k) {
    EXPECT_EQ(values[k], golden.value(0, k));
    EXPECT_EQ(values[rows * columns + k], golden.value(0, k));
  }
  EXPECT_TRUE(w.check_all_read());
}

TEST(QuantizedWeight, ColumnsByThirtyTwoAreMultipliedByAnyNumberOfRows) {
  const TempFolder folder;
  GgufBuilder builder;
  std::string blocks;
  for (int i = 0; i < 5 * 3; ++i) {
    blocks += std::string("\x00\x2c", 2) + std::string(16, static_cast<char>(17 * i + 3));
  }
  const auto checkpoint = open(folder, builder.tensor("m.weight", 2, {5, 96}, blocks));
  for (const int rows : {1, 3, 40}) {
    const auto compute = [&](bool own_kernels) {
      const OwnKernels own(own_kernels);
      const tensor::Weights w(checkpoint, {}, mx::float32);
      const mx::array x = mx::sin(mx::arange(0, rows * 96, mx::float32));
      return values_of(quantized_matmul(mx::reshape(x, {rows, 96}), load_quantized({w / "m"})));
    };
    const std::vector<float> own = compute(true);
    const std::vector<float> plain = compute(false);
    ASSERT_EQ(own.size(), plain.size());
    for (size_t i = 0; i < own.size(); ++i) {
      ASSERT_NEAR(own[i], plain[i], 1e-3f) << rows << " rows, " << i;
    }
  }
}

TEST(QuantizedWeight, MatricesOfDifferentTypesDoNotStack) {
  const TempFolder folder;
  GgufBuilder builder;
  add_golden(builder, Encoding::q4_k);
  const auto checkpoint = open(folder, add_golden(builder, Encoding::q6_k));
  const tensor::Weights w(checkpoint, {}, mx::float32);
  const std::vector<QuantizedModule> modules = {{w / "Q4_K"}, {w / "Q6_K"}};
  EXPECT_FALSE(can_stack(modules));
  EXPECT_THROW((void)load_quantized(modules), LoadError);
}

TEST(QuantizedWeight, AWrongShapeIsAnErrorThatNamesTensorAndShapes) {
  const TempFolder folder;
  GgufBuilder builder;
  const auto checkpoint = open(folder, add_golden(builder, Encoding::q4_k));
  const tensor::Weights w(checkpoint, {}, mx::float32);
  const std::string message = load_error({w / "Q4_K", 2, 256});
  EXPECT_THAT(message, HasSubstr("\"Q4_K.weight\": expected shape [2, 256], got [2, 512]"));
}

class BadScale : public testing::TestWithParam<bool> {};

TEST_P(BadScale, ANanOrInfiniteScaleIsAnErrorThatNamesTheTensor) {
  const OwnKernels own(GetParam());
  for (const char* scale : {"\x01\x7e", "\x00\x7c", "\x00\xfc"}) {
    const TempFolder folder;
    GgufBuilder builder;
    std::string blocks(18 * 4, '\x11');
    blocks.replace(18, 2, scale, 2);
    const auto checkpoint = open(folder, builder.tensor("m.weight", 2, {2, 64}, blocks));
    const tensor::Weights w(checkpoint, {}, mx::float32);
    EXPECT_THAT(load_error({w / "m"}),
                HasSubstr("\"m.weight\" (Q4_0): a scale is NaN or infinite"));
  }
}

TEST_P(BadScale, OnlyZeroScalesAreAnErrorThatNamesTheTensor) {
  const OwnKernels own(GetParam());
  const TempFolder folder;
  GgufBuilder builder;
  const auto checkpoint =
      open(folder, builder.tensor("m.weight", 2, {2, 64}, std::string(18 * 4, '\0')));
  const tensor::Weights w(checkpoint, {}, mx::float32);
  EXPECT_THAT(load_error({w / "m"}), HasSubstr("\"m.weight\" (Q4_0): every scale is zero"));
}

TEST_P(BadScale, OneZeroScaleIsFine) {
  const OwnKernels own(GetParam());
  const TempFolder folder;
  GgufBuilder builder;
  std::string blocks(18 * 4, '\x11');
  blocks.replace(0, 2, 2, '\0');
  const auto checkpoint = open(folder, builder.tensor("m.weight", 2, {2, 64}, blocks));
  const tensor::Weights w(checkpoint, {}, mx::float32);
  EXPECT_EQ(load_error({w / "m"}), "no error");
}

INSTANTIATE_TEST_SUITE_P(BothLayouts, BadScale, testing::Bool(),
                         [](const auto& param) { return param.param ? "panels" : "affine"; });

TEST(QuantizedWeight, AScaleThatFloat16CannotHoldIsAnErrorThatNamesTheTensor) {
  const OwnKernels own(false);
  const TempFolder folder;
  GgufBuilder builder;
  std::string block(34, '\x11');
  block.replace(0, 2, "\xff\x7b", 2);  // 65504, and -128 times that as bias
  const auto checkpoint = open(folder, builder.tensor("m.weight", 8, {1, 32}, block));
  const tensor::Weights half(checkpoint, {}, mx::float16);
  EXPECT_THAT(load_error({half / "m"}),
              HasSubstr("\"m.weight\" (Q8_0): a value does not fit float16"));
  const tensor::Weights brain(checkpoint, {}, mx::bfloat16);
  EXPECT_EQ(load_error({brain / "m"}), "no error");
}

class MlxFolder : public testing::TestWithParam<bool> {
 protected:
  MlxFolder()
      : checkpoint_(*tensor::Checkpoint::open(POME_SOURCE_DIR "/src/quant/golden/mlx_folder")) {}
  tensor::Checkpoint checkpoint_;
};

TEST_P(MlxFolder, EveryWidthAndGroupLoadsAsItIs) {
  const OwnKernels own(GetParam());
  const tensor::Weights w(checkpoint_, {}, mx::float32);
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group_size : {32, 64, 128}) {
      const std::string name = "b" + std::to_string(bits) + "g" + std::to_string(group_size);
      const tensor::Weights module = w / name;
      ASSERT_TRUE(is_quantized(module)) << name;
      const QuantizedWeight q = load_quantized({module, 2, 128});
      EXPECT_EQ(q.layout(), GetParam() ? Layout::panels : Layout::affine);
      EXPECT_EQ(q.form().group_size, group_size);
      const std::vector<float> expected = values_of(module.get("expected"));
      const std::vector<float> values = values_of(q.unpack());
      ASSERT_EQ(values.size(), expected.size());
      for (size_t i = 0; i < values.size(); ++i) {
        // The reference multiplies and adds with two roundings, panels with one.
        ASSERT_NEAR(values[i], expected[i], 1e-6f * (1.0f + std::abs(expected[i])))
            << name << " " << i;
      }
    }
  }
  EXPECT_FALSE(is_quantized(w / "plain"));
  EXPECT_FALSE((w / "plain").affine_setting());
  EXPECT_EQ(values_of((w / "plain").get("weight")), values_of((w / "plain").get("expected")));
  EXPECT_TRUE(w.check_all_read());
}

INSTANTIATE_TEST_SUITE_P(BothLayouts, MlxFolder, testing::Bool(),
                         [](const auto& param) { return param.param ? "panels" : "affine"; });

}  // namespace
}  // namespace pome::quant
