#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "kernels/backend.h"
#include "layers/embedding.h"
#include "layers/gated_mlp.h"
#include "layers/linear.h"
#include "layers/rms_norm.h"
#include "layers/rope.h"
#include "tensor/checkpoint/load_error.h"
#include "tensor/weights.h"

namespace pome::layers {
namespace {

using tensor::Weights;

Weights golden(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::path(POME_SOURCE_DIR) / "tests/golden/llm" / name;
  return Weights(*tensor::Checkpoint::open(folder), {}, mx::float32);
}

Forward no_step() {
  const mx::array none = mx::array(0, mx::int32);
  return {.tokens = none,
          .positions = none,
          .rope_positions = none,
          .row_offsets = none,
          .kv_lengths = none,
          .adapter_slots = none,
          .output_tokens = none,
          .groups = {},
          .trace = {}};
}

mx::array activations(int32_t rows, int32_t columns) {
  const mx::array ramp = mx::reshape(mx::arange(rows * columns), {rows, columns});
  return mx::sin(mx::astype(ramp, mx::float32) * mx::array(0.7f));
}

bool same(const mx::array& a, const mx::array& b) {
  return mx::array_equal(a, b).item<bool>();
}

std::vector<float> frequencies(const RopeConfig& config, int32_t head_dim) {
  const mx::array values = *rope_options(config, head_dim).inverse_frequencies;
  return {values.data<float>(), values.data<float>() + values.size()};
}

TEST(Linear, PutsTheResultsOfStackedModulesSideBySide) {
  for (const char* name : {"qwen3", "qwen3_mlx"}) {  // dense, quantized
    const Weights mlp = golden(name) / "model" / "layers" / 0 / "mlp";
    const int32_t rows = name == std::string("qwen3") ? 48 : 96;
    const std::array modules = {Projection{mlp / "gate_proj", rows},
                                Projection{mlp / "up_proj", rows}};
    const mx::array x = activations(3, 64);
    const mx::array stacked = Linear(modules, 64)(x, no_step());
    const mx::array gate = Linear(mlp / "gate_proj", 64, rows)(x, no_step());
    const mx::array up = Linear(mlp / "up_proj", 64, rows)(x, no_step());
    EXPECT_TRUE(same(stacked, mx::concatenate({gate, up}, 1))) << name;
  }
}

TEST(Linear, KeepsModulesOfDifferentFormatsApart) {
  const Weights mlp = golden("qwen3_mlx") / "model" / "layers" / 1 / "mlp";  // gate_proj is dense
  const std::array modules = {Projection{mlp / "gate_proj", 96}, Projection{mlp / "up_proj", 96}};
  const mx::array x = activations(2, 64);
  const mx::array gate = Linear(mlp / "gate_proj", 64, 96)(x, no_step());
  const mx::array up = Linear(mlp / "up_proj", 64, 96)(x, no_step());
  EXPECT_TRUE(same(Linear(modules, 64)(x, no_step()), mx::concatenate({gate, up}, 1)));
  EXPECT_TRUE(
      same(Linear(modules, 64).gated(x, no_step(), Activation::silu), kernels::silu_mul(gate, up)));
}

TEST(Linear, AddsTheBiasOnlyWhenAskedAndInsistsOnIt) {
  const Weights attention = golden("qwen2") / "model" / "layers" / 0 / "self_attn";
  const mx::array x = activations(2, 72);
  const mx::array with = Linear(attention / "q_proj", 72, 72, {.bias = true})(x, no_step());
  const mx::array without = Linear(attention / "q_proj", 72, 72)(x, no_step());
  const mx::array bias = (attention / "q_proj").get("bias", {72});
  EXPECT_TRUE(mx::allclose(with, without + bias).item<bool>());
  EXPECT_THROW(Linear(attention / "o_proj", 72, 72, {.bias = true}), tensor::LoadError);
}

TEST(Linear, RefusesAMatrixOfAnotherShape) {
  const Weights mlp = golden("qwen3") / "model" / "layers" / 0 / "mlp";
  EXPECT_THROW(Linear(mlp / "up_proj", 64, 47), tensor::LoadError);
  EXPECT_THROW(Linear(mlp / "up_proj", 63, 48), tensor::LoadError);
}

TEST(Embedding, GivesZerosForIdsOutsideTheVocabulary) {
  for (const char* name : {"qwen3", "qwen3_mlx"}) {
    const Embedding embed(golden(name) / "model" / "embed_tokens", 199, 64);
    const mx::array rows = embed(mx::array({198, 199, -1}, mx::int32), no_step());
    const mx::array largest = mx::max(mx::abs(rows), -1);
    EXPECT_GT(mx::take(largest, 0).item<float>(), 0.0f) << name;
    EXPECT_EQ(mx::take(largest, 1).item<float>(), 0.0f) << name;
    EXPECT_EQ(mx::take(largest, 2).item<float>(), 0.0f) << name;
  }
}

TEST(Embedding, SharesItsMatrixWithTheTiedHead) {
  const Embedding embed(golden("qwen3") / "model" / "embed_tokens", 199, 64);
  const mx::array x = embed(mx::array({17}, mx::int32), no_step());
  const mx::array logits = embed.tied_head()(x, no_step());
  EXPECT_EQ(logits.shape(), (mx::Shape{1, 199}));
  EXPECT_NEAR(mx::take(logits, 17).item<float>(), mx::sum(mx::square(x)).item<float>(), 1e-3f);
}

TEST(RmsNorm, AfterASumEqualsSumThenNorm) {
  const RmsNorm norm(golden("qwen3") / "model" / "norm", 64, 1e-6f);
  const mx::array h = activations(5, 64);
  const mx::array delta = mx::cos(h);
  const auto [sum, normed] = norm.after_sum(h, delta, no_step());
  EXPECT_TRUE(same(sum, h + delta));
  EXPECT_TRUE(same(normed, norm(h + delta, no_step())));
}

TEST(GatedMlp, IsDownOfActivatedGateTimesUp) {
  const Weights w = golden("gemma3") / "model" / "layers" / 0 / "mlp";
  const mx::array x = activations(4, 48);
  const mx::array gate = Linear(w / "gate_proj", 48, 40)(x, no_step());
  const mx::array up = Linear(w / "up_proj", 48, 40)(x, no_step());
  const mx::array inner = kernels::gelu_tanh_mul(gate, up);
  EXPECT_TRUE(same(GatedMlp(w, 48, 40, Activation::gelu_tanh)(x, no_step()),
                   Linear(w / "down_proj", 40, 48)(inner, no_step())));
}

TEST(Rope, PlainAndLinearFrequenciesFollowTheirFormulas) {
  const std::vector<float> plain = frequencies({.theta = 100.0f, .scaling = {}}, 4);
  EXPECT_FLOAT_EQ(plain[0], 1.0f);
  EXPECT_FLOAT_EQ(plain[1], 0.1f);
  const RopeScaling linear{.kind = RopeKind::linear, .factor = 4.0f};
  EXPECT_FLOAT_EQ(frequencies({.theta = 100.0f, .scaling = linear}, 4)[1], 0.025f);
}

TEST(Rope, WavelengthScalingKeepsShortWavesAndDividesLongOnes) {
  const RopeScaling scaling{.kind = RopeKind::wavelength, .factor = 8.0f, .original_context = 64};
  const RopeConfig scaled{.theta = 10000.0f, .scaling = scaling};
  const std::vector<float> before = frequencies({.theta = 10000.0f, .scaling = {}}, 16);
  const std::vector<float> after = frequencies(scaled, 16);
  EXPECT_FLOAT_EQ(after.front(), before.front());       // 6.3 tokens a turn: shorter than 64 / 4
  EXPECT_FLOAT_EQ(after.back(), before.back() / 8.0f);  // longer than 64
  EXPECT_LT(after[1], before[1]);                       // 19.9 tokens a turn: on the ramp
  EXPECT_GT(after[1], before[1] / 8.0f);
}

TEST(Rope, YarnScalesAmplitudeWithTheLogarithmOfItsFactor) {
  RopeScaling scaling{.kind = RopeKind::yarn, .factor = 4.0f, .original_context = 64};
  const float amplitude = rope_options({.theta = 1e4f, .scaling = scaling}, 16).amplitude;
  EXPECT_FLOAT_EQ(amplitude, 0.1f * std::log(4.0f) + 1.0f);
  scaling.attention_factor = 1.25f;
  EXPECT_FLOAT_EQ(rope_options({.theta = 1e4f, .scaling = scaling}, 16).amplitude, 1.25f);
}

TEST(Rope, DivisorsFromAFileTakeThePlaceOfScaling) {
  const RopeScaling linear{.kind = RopeKind::linear, .factor = 4.0f};
  const RopeConfig config{.theta = 100.0f, .scaling = linear, .frequency_divisors = {1.0f, 2.0f}};
  EXPECT_FLOAT_EQ(frequencies(config, 4)[1], 0.05f);
}

}  // namespace
}  // namespace pome::layers
