// Tiny random checkpoints against the reference library, layer by layer; the first tensor that
// differs is named. tests/golden/llm/*/ORIGIN says how the goldens were made.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "models/llm/load_model.h"
#include "models/sequences/graph_nodes.h"
#include "models/sequences/sequences.h"

namespace pome {
namespace {

using models::Outputs;
using models::RowTokens;
using models::Sequences;

struct Golden {
  std::string folder;
  std::string file;  // inside the folder; empty: the folder itself
  bool quantized = false;
};

struct Case {
  Golden golden;
  bool own_kernels = true;
};

const std::vector<Golden> kGoldens = {
    {"llama", ""},
    {"llama", "model.gguf"},
    {"llama_blocks", "model.gguf", true},
    {"qwen2", ""},
    {"qwen2", "model.gguf"},
    {"qwen3", ""},
    {"qwen3", "model.gguf"},
    {"qwen3_mlx", "", true},
    {"gemma3", ""},
    {"gemma3", "model.gguf"},
    {"gemma3_multimodal", ""},
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Golden& golden : kGoldens) {
    cases.push_back({golden, true});
    cases.push_back({golden, false});
  }
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const Golden& golden = info.param.golden;
  return fmt::format("{}_{}_{}", golden.folder, golden.file.empty() ? "folder" : "gguf",
                     info.param.own_kernels ? "own" : "plain");
}

void PrintTo(const Case& test_case, std::ostream* out) {
  *out << test_case.golden.folder << "/" << test_case.golden.file
       << (test_case.own_kernels ? ", own kernels" : ", plain operations");
}

// Largest difference relative to the largest expected number.
float relative_difference(const mx::array& actual, const mx::array& expected) {
  if (actual.shape() != expected.shape()) {
    return std::numeric_limits<float>::infinity();
  }
  const mx::array largest = mx::max(mx::abs(expected));
  const float difference = (mx::max(mx::abs(actual - expected)) / largest).item<float>();
  return std::isnan(difference) ? std::numeric_limits<float>::infinity() : difference;
}

class LlmParity : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().own_kernels && !kernels::computes_on_cpu()) {
      GTEST_SKIP() << "the default device has no own kernels";
    }
    kernels::set_own_kernels_enabled(GetParam().own_kernels);
    folder_ =
        std::filesystem::path(POME_SOURCE_DIR) / "tests/golden/llm" / GetParam().golden.folder;
    const std::string& file = GetParam().golden.file;
    Result<std::unique_ptr<models::LanguageModel>> model =
        models::load_model(file.empty() ? folder_ : folder_ / file);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    expected_ = mx::load_safetensors((folder_ / "expect.safetensors").string()).first;
    const mx::array tokens = expected_.at("tokens");
    mx::array stored = tokens;
    stored.eval();
    prompt_.assign(stored.data<int32_t>(), stored.data<int32_t>() + stored.size());
  }
  void TearDown() override { kernels::set_own_kernels_enabled(true); }

  std::vector<Token> prompt(int32_t begin, int32_t end) const {
    return {prompt_.begin() + begin, prompt_.begin() + end};
  }
  int32_t prompt_tokens() const { return static_cast<int32_t>(prompt_.size()); }

  // Own quantized products round activations to 16 bits; plain ones on a GPU round them to the
  // dtype of the weights, and the GGUF files hold f16.
  bool rounds_to_halves() const {
    return !kernels::computes_on_cpu() && !GetParam().golden.file.empty();
  }
  float tolerance() const {
    if (rounds_to_halves()) {
      return 6e-3f;
    }
    return GetParam().golden.quantized && GetParam().own_kernels ? 5e-4f : 5e-5f;
  }

  // Logits of all of the prompt's tokens in chunks of the given sizes.
  mx::array chunked_logits(const std::vector<int32_t>& chunks) {
    Sequences sequences(*model_, {.format = {}});
    std::vector<mx::array> parts;
    int32_t begin = 0;
    for (int32_t count : chunks) {
      const RowTokens row{0, prompt(begin, begin + count), Outputs::all};
      parts.push_back(sequences.step({row}).logits);
      begin += count;
    }
    mx::array logits = mx::concatenate(parts, 0);
    logits.eval();
    return logits;
  }

  void expect_same(const mx::array& actual, const mx::array& expected) {
    if (GetParam().own_kernels) {
      EXPECT_TRUE(mx::array_equal(actual, expected).item<bool>())
          << "differs by " << relative_difference(actual, expected);
    } else {
      EXPECT_LT(relative_difference(actual, expected), rounds_to_halves() ? 1e-2f : 1e-3f);
    }
  }

  std::filesystem::path folder_;
  std::unique_ptr<models::LanguageModel> model_;
  std::unordered_map<std::string, mx::array> expected_;
  std::vector<Token> prompt_;
};

TEST_P(LlmParity, EveryIntermediateMatchesTheReference) {
  for (int32_t count : {1, 15, 16, 17, 37}) {
    Sequences sequences(*model_, {});
    std::vector<std::pair<std::string, mx::array>> seen;
    const auto trace = [&](std::string_view name, const mx::array& x) {
      seen.emplace_back(name, x);
    };
    sequences.step({{0, prompt(0, count), Outputs::all}}, trace);
    ASSERT_EQ(seen.size() + 1, expected_.size()) << "every golden tensor is looked at";
    for (const auto& [name, actual] : seen) {
      const mx::array& whole = expected_.at(name);
      const mx::array expected = mx::slice(whole, {0, 0}, {count, whole.shape(1)});
      ASSERT_LT(relative_difference(actual, expected), tolerance())
          << "the first tensor that differs is " << name << ", prompt of " << count;
    }
  }
}

TEST_P(LlmParity, ChunkedPrefillEqualsTheWhole) {
  const mx::array whole = chunked_logits({prompt_tokens()});
  expect_same(chunked_logits({16, 16, 5}), whole);
  expect_same(chunked_logits({1, 14, 2, 19, 1}), whole);
  expect_same(chunked_logits(std::vector<int32_t>(prompt_.size(), 1)), whole);
}

TEST_P(LlmParity, RowsOfARaggedBatchEqualTheSameRowsAlone) {
  const std::vector<std::pair<int32_t, int32_t>> spans = {{0, 37}, {5, 6}, {3, 20}, {10, 26}};
  Sequences batch(*model_, {.sequences = 4, .format = {}});
  // Sequence 1 is already in decode when the others start.
  const RowTokens context{1, prompt(0, 5), Outputs::none};
  batch.step({context});
  mx::eval(batch.handles());
  std::vector<RowTokens> rows;
  for (int32_t s = 0; s < 4; ++s) {
    const auto [begin, end] = spans[static_cast<size_t>(s)];
    rows.push_back({s, prompt(begin, end), Outputs::last});
  }
  const mx::array together = batch.step(rows).logits;
  for (int32_t s = 0; s < 4; ++s) {
    Sequences alone(*model_, {.format = {}});
    if (s == 1) {
      alone.step({{0, prompt(0, 5), Outputs::none}});
      mx::eval(alone.handles());
    }
    RowTokens row = rows[static_cast<size_t>(s)];
    row.sequence = 0;
    expect_same(mx::take(together, mx::array({s}, mx::int32), 0), alone.step({row}).logits);
  }
}

TEST_P(LlmParity, AStepHasAsManyOperationsForAnyBatch) {
  // Rows of `tokens` tokens each, every other one of one more if `ragged`.
  const auto operations = [&](int32_t batch, int32_t tokens, bool ragged) {
    Sequences sequences(*model_, {.sequences = batch});
    std::vector<RowTokens> rows;
    for (int32_t s = 0; s < batch; ++s) {
      rows.push_back({s, prompt(s, s + tokens + (ragged ? s % 2 : 0)), Outputs::last});
    }
    std::vector<mx::array> outputs = {sequences.step(rows).logits};
    for (const mx::array& pages : sequences.handles()) {
      outputs.push_back(pages);
    }
    return models::count_nodes(outputs).total;
  };
  for (const bool ragged : {false, true}) {
    std::vector<int64_t> counts;
    // MLX leaves out broadcasts over a single row, so plain operations are counted from two rows
    // on.
    for (int32_t batch : {GetParam().own_kernels ? 1 : 2, 3, 8}) {
      counts.push_back(operations(batch, ragged ? 4 : 1, ragged));
    }
    EXPECT_THAT(counts, ::testing::Each(counts.front())) << (ragged ? "prefill" : "decode");
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, LlmParity, ::testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace pome
