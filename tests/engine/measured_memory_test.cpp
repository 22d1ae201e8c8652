#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "engine/llm_engine.h"
#include "kernels/backend.h"
#include "support/listener.h"
#include "support/real_weights.h"

// What steps take under a mixed load, against what the plan gave them.
namespace pome::engine {
namespace {

MemoryFigure figure_of(const LlmEngine& engine, const std::string& item) {
  for (const MemoryFigure& figure : engine.details().memory) {
    if (figure.item == item) {
      return figure;
    }
  }
  ADD_FAILURE() << "no item " << item;
  return {};
}

// Every row and chunk that there can be: long and short prompts, some of them scored, sampled with
// every filter.
std::vector<Job> mixed_jobs(const ModelInfo& model, int32_t longest) {
  std::vector<Job> jobs;
  for (uint64_t id = 1; id <= 16; ++id) {
    const int32_t length = id % 3 == 0 ? 5 : longest - static_cast<int32_t>(id);
    std::vector<Token> prompt;
    for (int32_t i = 0; i < length; ++i) {
      prompt.push_back((i * 7919 + static_cast<int32_t>(id) * 31) % model.vocab_tokens);
    }
    Job job = job_of(id, prompt, 12);
    job.ignore_eos = true;
    job.top_logprobs = 4;
    job.score_from = id % 4 == 1 ? 1 : -1;
    job.sampling.temperature = 0.8f;
    job.sampling.top_p = 0.9f;
    job.sampling.repetition_penalty = 1.1f;
    jobs.push_back(job);
  }
  return jobs;
}

void expect_inside_the_plan(const EngineOptions& options, int32_t longest) {
  LlmEngine engine(options);
  const Status ready = engine.wait_until_ready(std::chrono::seconds(60));
  ASSERT_TRUE(ready.ok()) << ready.error().message;
  Listener listener(engine);
  const std::vector<Job> jobs = mixed_jobs(engine.model(), longest);
  for (const Job& job : jobs) {
    const Status status = engine.submit(job);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  for (const Job& job : jobs) {
    EXPECT_EQ(listener.until_end(static_cast<uint64_t>(job.sequence)).last.finish,
              FinishReason::length);
  }
  const MemoryFigure work = figure_of(engine, "activations");
  EXPECT_GT(*work.measured_bytes, 0);
  EXPECT_LE(*work.measured_bytes, *work.planned_bytes);
  const MemoryFigure cache = figure_of(engine, "MLX cache");
  EXPECT_LE(*cache.measured_bytes, *cache.planned_bytes);
}

EngineOptions full_options(const std::filesystem::path& model) {
  EngineOptions options;
  options.model_path = model;
  options.max_running_requests = 8;
  options.chunked_prefill_size = 128;
  options.disable_radix_cache = true;
  return options;
}

class MeasuredMemory : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!kernels::computes_on_cpu()) {
      GTEST_SKIP() << "a plan does not hold what libraries take for themselves on a GPU";
    }
  }
};

TEST_P(MeasuredMemory, StaysInsideThePlanAtFullRowsAndChunks) {
  expect_inside_the_plan(
      full_options(std::filesystem::path(POME_SOURCE_DIR) / "tests/golden/llm" / GetParam()), 200);
}

// What a GPU without kernels of our own runs.
TEST_P(MeasuredMemory, StaysInsideThePlanWithPlainOperations) {
  EngineOptions options =
      full_options(std::filesystem::path(POME_SOURCE_DIR) / "tests/golden/llm" / GetParam());
  options.disable_own_kernels = true;
  expect_inside_the_plan(options, 200);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, MeasuredMemory,
                         testing::Values("llama", "qwen3", "gemma3", "qwen3_mlx"));

class MeasuredDemo : public testing::Test {
 protected:
  void SetUp() override {
    constexpr const char* kWeights = "SmolLM2-135M-Instruct.Q4_1.gguf";
    const auto found = test::find_weights(kWeights);
    if (!found) {
      GTEST_SKIP() << kWeights << " is not in " << test::cache_folder();
    }
    options_ = full_options(*found);
  }
  EngineOptions options_;
};

// Scores take no part of so small a budget that would hide a step that takes too much.
TEST_F(MeasuredDemo, StaysInsideThePlanWithATightBudget) {
  options_.max_memory_bytes = int64_t{230} << 20;
  options_.context_length = 512;
  expect_inside_the_plan(options_, 150);
}

TEST_F(MeasuredDemo, KeepsTheBytesOfATokenThatTheArithmeticSays) {
  LlmEngine engine(options_);
  ASSERT_TRUE(engine.wait_until_ready(std::chrono::seconds(60)).ok());
  const double arithmetic = 30 * 3 * 64 * 2 * 2;  // layers, heads, head size, K and V, half
  const auto per_token = static_cast<double>(*figure_of(engine, "KV pool").planned_bytes) /
                         engine.stats().kv_tokens_max;
  EXPECT_NEAR(per_token, arithmetic, 0.02 * arithmetic);
}

}  // namespace
}  // namespace pome::engine
