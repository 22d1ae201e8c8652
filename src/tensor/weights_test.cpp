#include "tensor/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tensor/dense.h"
#include "tensor/files/test_files.h"

namespace pome::tensor {
namespace {

using test::GgufBuilder;
using test::raw_bytes;
using test::safetensors_file;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kF16 = 1;

Checkpoint gguf_with(const TempFolder& folder, const GgufBuilder& builder) {
  return *Checkpoint::open(folder.write("m.gguf", builder.build()));
}

Checkpoint folder_with(const TempFolder& folder, std::string_view config) {
  folder.write("config.json", config);
  folder.write("model.safetensors", safetensors_file("{}", ""));
  return *Checkpoint::open(folder.path());
}

std::vector<float> values_of(mx::array a) {
  a = mx::contiguous(mx::astype(a, mx::float32));
  a.eval();
  return {a.data<float>(), a.data<float>() + a.size()};
}

template <typename Call>
std::string load_error(Call call) {
  try {
    (void)call();
  } catch (const LoadError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Weights, PathsExtendByNameAndIndex) {
  const TempFolder folder;
  const Checkpoint checkpoint = gguf_with(
      folder, GgufBuilder().tensor("model.layers.3.w", kF32, {2}, raw_bytes<float>({1, 2})));
  const Weights root(checkpoint, {}, mx::float32);
  const Weights layer = root / "model" / "layers" / 3;
  EXPECT_EQ(layer.path(), "model.layers.3");
  EXPECT_EQ(layer.full_name("w"), "model.layers.3.w");
  EXPECT_TRUE(layer.has("w"));
  EXPECT_FALSE(layer.has("v"));
  EXPECT_THAT(values_of(layer.get("w", {2})), ElementsAre(1, 2));
}

TEST(Weights, MissingTensorsWrongShapesAndBlocksAreErrorsThatNameTheTensor) {
  const TempFolder folder;
  WeightMap map;
  map.file_name = [](std::string_view name) { return "f_" + std::string(name); };
  const Checkpoint checkpoint =
      gguf_with(folder, GgufBuilder()
                            .tensor("f_a", kF32, {2, 3}, std::string(24, '\0'))
                            .tensor("f_q", 2, {1, 32}, std::string(18, '\0')));
  const Weights w(checkpoint, map, mx::float32);
  EXPECT_EQ(load_error([&] { return w.get("b"); }), "[load] tensor \"f_b\" (b) is missing");
  EXPECT_EQ(load_error([&] {
              return w.get("a", {3, 2});
            }),
            "[load] tensor \"a\": expected shape [3, 2], got [2, 3]");
  EXPECT_THAT(load_error([&] { return w.get("q"); }), HasSubstr("got Q4_0 blocks"));
  EXPECT_THAT(load_error([&] { return w.get_stored("q"); }), HasSubstr("got Q4_0 blocks"));
}

TEST(Weights, WhatNobodyReadIsNamed) {
  const TempFolder folder;
  const Checkpoint checkpoint = gguf_with(folder, GgufBuilder()
                                                      .tensor("a", kF32, {1}, "1234")
                                                      .tensor("b", kF32, {1}, "1234")
                                                      .tensor("c", kF32, {1}, "1234"));
  const Weights w(checkpoint, {}, mx::float32);
  (void)(w / "x").has("a");
  (void)w.get("a");
  w.ignore("b");
  const Status unread = w.check_all_read();
  ASSERT_FALSE(unread);
  EXPECT_THAT(unread.error().message, HasSubstr("1 tensors"));
  EXPECT_THAT(unread.error().message, HasSubstr("\"c\""));
  (void)w.file_tensor("c");
  EXPECT_TRUE(w.check_all_read());
}

TEST(Weights, ValuesConvertToTheAskedDtypeAndKeepTheirOwnWhenStored) {
  const TempFolder folder;
  const Checkpoint checkpoint = gguf_with(
      folder, GgufBuilder().tensor("h", kF16, {2}, raw_bytes<uint16_t>({0x3c00, 0xc100})));
  const Weights w(checkpoint, {}, mx::bfloat16);
  EXPECT_EQ(w.get("h").dtype(), mx::bfloat16);
  EXPECT_THAT(values_of(w.get("h")), ElementsAre(1.0f, -2.5f));
  EXPECT_EQ(w.get_stored("h").dtype(), mx::float16);
  EXPECT_THAT(values_of(w.get_stored("h")), ElementsAre(1.0f, -2.5f));
}

TEST(Weights, IntegersKeepTheirType) {
  const TempFolder folder;
  const Checkpoint checkpoint =
      gguf_with(folder, GgufBuilder().tensor("i", 26, {2}, raw_bytes<int32_t>({-5, 7})));
  const mx::array a = Weights(checkpoint, {}, mx::bfloat16).get("i");
  EXPECT_EQ(a.dtype(), mx::int32);
  EXPECT_THAT(values_of(a), ElementsAre(-5, 7));
}

TEST(Weights, RowOrderAndOffsetOfTheMapApply) {
  const TempFolder folder;
  WeightMap map;
  map.row_order = [](std::string_view name,
                     const std::vector<int64_t>&) -> std::optional<std::vector<int32_t>> {
    return name == "m" ? std::optional(std::vector<int32_t>{2, 0, 1}) : std::nullopt;
  };
  map.offset = [](std::string_view name) { return name == "n" ? -1.0f : 0.0f; };
  const Checkpoint checkpoint =
      gguf_with(folder, GgufBuilder()
                            .tensor("m", kF32, {3, 2}, raw_bytes<float>({1, 2, 3, 4, 5, 6}))
                            .tensor("n", kF32, {2}, raw_bytes<float>({1.5f, 0.5f})));
  const Weights w(checkpoint, map, mx::float32);
  EXPECT_THAT(values_of(w.get("m")), ElementsAre(5, 6, 1, 2, 3, 4));
  EXPECT_THAT(values_of(w.get_stored("m")), ElementsAre(5, 6, 1, 2, 3, 4));
  EXPECT_THAT(values_of(w.get("n")), ElementsAre(0.5f, -0.5f));
}

TEST(Weights, AnUnchangedTensorAliasesTheFileOnACpuAndIsNeverWrittenTo) {
  const TempFolder folder;
  mx::array a(0.0f);
  const std::byte* in_file = nullptr;
  {
    const Checkpoint checkpoint =
        gguf_with(folder, GgufBuilder().tensor("t", kF32, {3}, raw_bytes<float>({1, 2, 3})));
    const Weights w(checkpoint, {}, mx::float32);
    in_file = w.file_tensor("t").bytes.data();
    a = w.get("t");
  }
  if (!can_alias_files()) {
    GTEST_SKIP() << "this MLX runs on a GPU, where weights are copied";
  }
  EXPECT_EQ(static_cast<const void*>(a.data<float>()), static_cast<const void*>(in_file));
  // The last handle goes into the sum, whose output may take over an operand's memory; the mapping
  // is read-only.
  mx::array sum = std::move(a) + mx::array({1.0f, 1.0f, 1.0f});
  EXPECT_THAT(values_of(sum), ElementsAre(2, 3, 4));
}

TEST(Weights, ATensorThatIsNotAlignedIsCopied) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  const std::string header = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  folder.write("model.safetensors",
               safetensors_file(header, "x" + raw_bytes<float>({0.25f, -8.0f})));
  const Checkpoint checkpoint = *Checkpoint::open(folder.path());
  EXPECT_THAT(values_of(Weights(checkpoint, {}, mx::float32).get("f")), ElementsAre(0.25f, -8.0f));
}

TEST(Weights, QuantizationOfAModuleIsTheModelsUnlessItsPathOverridesIt) {
  const TempFolder folder;
  const Checkpoint checkpoint = folder_with(folder, R"({"quantization":{
      "group_size":64,"bits":4,"model.a":{"group_size":32,"bits":8},"model.b":false,
      "file.c":{"group_size":128,"bits":6}}})");
  WeightMap map;
  map.file_name = [](std::string_view name) {
    return name == "model.c.weight" ? "file.c.weight" : std::string(name);
  };
  const Weights w = Weights(checkpoint, map, mx::float32) / "model";
  EXPECT_EQ((w / "z").affine_setting()->bits, 4);
  EXPECT_EQ((w / "z").affine_setting()->group_size, 64);
  EXPECT_EQ((w / "a").affine_setting()->bits, 8);
  EXPECT_EQ((w / "a").affine_setting()->group_size, 32);
  EXPECT_FALSE((w / "b").affine_setting());
  EXPECT_EQ((w / "c").affine_setting()->bits, 6);
}

TEST(Weights, QuantizationOfOtherToolsAndOtherModesIsAnError) {
  for (const auto& [config, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}})", "gptq"},
           {R"({"quantization_config":{"quant_method":"fp8"}})", "fp8"},
           {R"({"quantization":{"bits":4,"group_size":32,"mode":"mxfp4"}})", "mxfp4"},
           {R"({"quantization":{"bits":7,"group_size":64}})", "bits"},
           {R"({"quantization":{"bits":4,"group_size":16}})", "group_size"},
           {R"({"quantization":4})", "expected \"quantization\" to be an object, got 4"},
           {R"({"quantization_config":[]})", "\"quantization_config\" to be an object"}}) {
    const TempFolder folder;
    const Checkpoint checkpoint = folder_with(folder, config);
    EXPECT_THAT(load_error([&] { return Weights(checkpoint, {}, mx::float32); }),
                HasSubstr(expected));
  }
}

TEST(Weights, AnOverrideIsASettingOrABoolean) {
  const TempFolder folder;
  const Weights w(folder_with(folder, R"({"quantization":{"group_size":64,"bits":4,"a":8}})"), {},
                  mx::float32);
  EXPECT_THAT(load_error([&] { return (w / "a").affine_setting(); }),
              HasSubstr("quantization of a to be an object or false, got 8"));
}

TEST(Weights, ACheckpointWithoutQuantizationHasNone) {
  const TempFolder folder;
  const Checkpoint null = folder_with(folder, R"({"quantization":null})");
  EXPECT_FALSE((Weights(null, {}, mx::float32) / "a").affine_setting());
}

TEST(HalfPrecision, EveryHalfValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      continue;
    }
    ASSERT_EQ(f32_to_f16(value), bits) << value;
  }
}

TEST(HalfPrecision, RoundingIsToNearestEvenAsInMlx) {
  std::vector<float> values;
  for (int i = -2000; i < 2000; ++i) {
    values.push_back(std::ldexp(1.0f + static_cast<float>(i & 1023) / 1024.0f + 0x1p-11f, i / 100));
    values.push_back(std::ldexp(static_cast<float>(i), -26));
    values.push_back(static_cast<float>(i) * 33.3f);
  }
  for (const float value : {65504.0f, 65519.0f, 65520.0f, 1e30f, -1e30f, 0x1p-25f, 0x1.8p-25f,
                            std::numeric_limits<float>::infinity()}) {
    values.push_back(value);
  }
  const mx::array a(values.data(), {static_cast<int>(values.size())}, mx::float32);
  const std::vector<float> half = values_of(mx::astype(a, mx::float16));
  const std::vector<float> brain = values_of(mx::astype(a, mx::bfloat16));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(f16_to_f32(f32_to_f16(values[i])), half[i]) << values[i];
    ASSERT_EQ(bf16_to_f32(f32_to_bf16(values[i])), brain[i]) << values[i];
  }
}

}  // namespace
}  // namespace pome::tensor
