#include "engine_invariance.h"

#include "kernels/counters.h"
#include "kernels/thread_pool.h"

namespace pome::engine {
namespace {

TEST_P(EngineInvariance, InABatchAsAlone) {
  expect_all_same(together(options()));
}

TEST_P(EngineInvariance, InChunksAsWhole) {
  EngineOptions chunked = options();
  for (const int32_t chunk : {1, 7, 16, 33, 64}) {
    chunked.max_running_requests = std::min(chunk, 3);
    SCOPED_TRACE("chunks of " + std::to_string(chunk));
    chunked.chunked_prefill_size = chunk;
    expect_all_same(together(chunked));
  }
}

TEST_P(EngineInvariance, InPagesOfAnySize) {
  EngineOptions paged = options();
  for (const int32_t page : {1, 8, 64}) {
    SCOPED_TRACE("pages of " + std::to_string(page));
    paged.page_size = page;
    expect_all_same(together(paged));
  }
}

TEST_P(EngineInvariance, OnAnyNumberOfThreads) {
  const int threads = kernels::thread_count();
  for (const int count : {1, 3}) {
    kernels::set_thread_count(count);
    expect_all_same(together(options()));
  }
  kernels::set_thread_count(threads);
}

TEST_P(EngineInvariance, BesideNeighboursThatAreCancelled) {
  EngineOptions busy = options();
  busy.chunked_prefill_size = 20;
  const auto engine = started(busy);
  Listener listener(*engine);
  const std::vector<Job> jobs = jobs_of(engine->model());
  for (const Job& job : jobs) {
    Job neighbour = job;
    neighbour.request = RequestId{static_cast<uint64_t>(job.request) + 500};
    neighbour.sequence = SequenceId{static_cast<uint64_t>(job.sequence) + 500};
    neighbour.max_tokens = 100;
    ASSERT_TRUE(engine->submit(neighbour).ok());
    ASSERT_TRUE(engine->submit(job).ok());
  }
  for (size_t i = 0; i < jobs.size(); ++i) {  // some in prefill, some while they answer
    const auto id = static_cast<uint64_t>(jobs[i].sequence);
    if (i % 2 == 0) {
      listener.until_tokens(id + 500, 3);
    }
    engine->cancel(RequestId{id + 500});
  }
  for (const Job& job : jobs) {
    const auto id = static_cast<uint64_t>(job.sequence);
    listener.until_end(id + 500);
    expect_same(alone().at(id), listener.until_end(id), id);
  }
  EXPECT_EQ(engine->stats().kv_tokens_used, 0);
}

TEST_P(EngineInvariance, SeededDrawsAreTheSameTwiceAndOthersDiffer) {
  const auto engine = started(options());
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 6; ++id) {
    Job job = job_of(id, {5, 6, 7}, 24);
    job.ignore_eos = true;
    job.sampling.temperature = 30.0f;  // tiny random models are very sure of themselves
    if (id > 3) {
      job.sampling.seed = 0;
    }
    ASSERT_TRUE(engine->submit(job).ok());
  }
  for (uint64_t id = 1; id <= 6; ++id) {
    listener.until_end(id);
  }
  EXPECT_NE(listener[1].tokens, listener[2].tokens);
  if (GetParam().own_kernels) {
    EXPECT_EQ(listener[4].tokens, listener[5].tokens);
    EXPECT_EQ(listener[4].tokens, listener[6].tokens);
  }
}

// What is compared here is worth something only if every variant of every kernel has a part in it.
TEST_P(EngineInvariance, RunsEveryKernelVariantOrNone) {
  const std::string model = GetParam().model;
  std::vector<std::string> variants = {"paged_attention/whole_rows", "rope/rope_append",
                                       "sample/sample_by_row",       "sample/sample_by_block",
                                       "sample/logprobs_by_row",     "sample/logprobs_by_block"};
  if (model_path(model).extension() != ".gguf") {
    variants.push_back("paged_attention/split_rows");
  }
  if (model == "qwen3_mlx") {
    variants.insert(variants.end(), {"quantized_matmul/rows_1", "quantized_matmul/rows_2_to_7",
                                     "quantized_matmul/rows_8_or_more"});
  } else if (model == "qwen3") {
    variants.insert(variants.end(), {"matmul/rows_1_to_3", "matmul/rows_4_or_more"});
  }
  std::map<std::string, uint64_t> before;
  for (const std::string& variant : variants) {
    before[variant] = kernels::variant_runs(variant);
  }
  EngineOptions few = options();
  few.max_running_requests = 3;
  expect_all_same(together(few));
  expect_all_same(together(options()));
  for (const std::string& variant : variants) {
    if (GetParam().own_kernels) {
      EXPECT_GT(kernels::variant_runs(variant), before[variant]) << variant;
    } else {
      EXPECT_EQ(kernels::variant_runs(variant), before[variant]) << variant << " is switched off";
    }
  }
}

constexpr Setting kSettings[] = {
    {"llama", true},
    {"qwen2", true},
    {"qwen3", true},
    {"gemma3", true},
    {"qwen3_mlx", true},
    {"llama_blocks", true},
    {"llama", false},
    {"gemma3", false},
    {"qwen3_mlx", false},
    {"gemma3", true, {kvcache::KvElement::int8, 32}},
    {"llama", true, {kvcache::KvElement::int4}},
    {"llama", false, {kvcache::KvElement::int8}},
};
INSTANTIATE_TEST_SUITE_P(TinyModels, EngineInvariance, testing::ValuesIn(kSettings), name_of);

}  // namespace
}  // namespace pome::engine
