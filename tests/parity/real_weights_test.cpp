// Real weights against a float32 run of the reference library on the dequantized weights. Skips,
// with the place where it looked, where the weights are not on this machine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "models/llm/load_model.h"
#include "support/agreement.h"
#include "support/real_weights.h"

namespace pome {
namespace {

namespace fs = std::filesystem;

class RealWeights : public ::testing::TestWithParam<const char*> {};

TEST_P(RealWeights, AgreeWithTheReferenceOn200Tokens) {
  const std::optional<fs::path> weights = test::find_weights(GetParam());
  if (!weights) {
    GTEST_SKIP() << GetParam() << " is not in " << test::cache_folder();
  }
  const auto reference = test::AgreementReference::open(test::agreement_file(*weights));
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  ASSERT_EQ(reference->tokens().size(), 200u);
  const auto model = models::load_model(*weights);
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (int32_t chunk : {512, 48}) {
    const test::Agreement found = test::measure_agreement(**model, *reference, chunk, {});
    EXPECT_LT(found.mean_kl, 1e-3) << "chunks of " << chunk;
    EXPECT_GE(found.top1, 0.99) << "chunks of " << chunk;
    RecordProperty("mean_kl", fmt::format("{:.3e}", found.mean_kl));
    RecordProperty("top1", fmt::format("{:.4f}", found.top1));
  }
  const test::Agreement int8 =
      test::measure_agreement(**model, *reference, 512, {kvcache::KvElement::int8});
  EXPECT_LT(int8.mean_kl, 1e-3) << "keys and values of 8 bits";
  RecordProperty("mean_kl_int8", fmt::format("{:.3e}", int8.mean_kl));
}

INSTANTIATE_TEST_SUITE_P(SmolLM2, RealWeights,
                         ::testing::Values("SmolLM2-135M-Instruct.Q4_1.gguf"));
INSTANTIATE_TEST_SUITE_P(Gemma3, RealWeights, ::testing::Values("gemma-3-270m-q4_k_m.gguf"));

}  // namespace
}  // namespace pome
