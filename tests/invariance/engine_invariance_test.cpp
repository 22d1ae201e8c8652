#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "engine/llm_engine.h"
#include "kernels/counters.h"
#include "kernels/thread_pool.h"
#include "support/listener.h"

namespace pome::engine {
namespace {

struct Setting {
  const char* model;
  bool own_kernels;
};
std::string name_of(const testing::TestParamInfo<Setting>& info) {
  return std::string(info.param.model) + (info.param.own_kernels ? "_own" : "_plain");
}

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.model << (setting.own_kernels ? "" : " without own kernels");
}

// The tiny models know 256 positions; the kernels split a row's keys beyond that many. A copy that
// knows more takes part in both.
constexpr int32_t kContextTokens = 1024;

std::filesystem::path with_longer_context(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  const fs::path copy = fs::temp_directory_path() /
                        ("pome_invariance_" + std::to_string(getpid())) / folder.filename();
  if (fs::exists(copy)) {
    return copy;
  }
  fs::create_directories(copy);
  for (const auto& entry : fs::directory_iterator(folder)) {
    fs::copy_file(entry.path(), copy / entry.path().filename());
  }
  std::ifstream in(folder / "config.json");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  json::value config = parse_json(text).value();
  config.as_object()["max_position_embeddings"] = kContextTokens;
  std::ofstream(copy / "config.json") << to_string(config);
  return copy;
}

std::filesystem::path model_path(const std::string& model) {
  const std::filesystem::path folder =
      std::filesystem::path(POME_SOURCE_DIR) / "tests/golden/llm" / model;
  return std::filesystem::exists(folder / "config.json") ? with_longer_context(folder)
                                                         : folder / "model.gguf";
}

class RemoveCopies : public testing::Environment {
 public:
  void TearDown() override {
    std::filesystem::remove_all(std::filesystem::temp_directory_path() /
                                ("pome_invariance_" + std::to_string(getpid())));
  }
};
const testing::Environment* const kRemoveCopies =
    testing::AddGlobalTestEnvironment(new RemoveCopies);

using Answers = std::map<uint64_t, Heard>;

// Lengths around pages (16), key blocks (32), key splits (256) and the smallest window (11).
constexpr int32_t kLengths[] = {1, 11, 12, 15, 16, 17, 31, 33, 48, 64, 65, 300};

std::vector<Job> jobs_of(const ModelInfo& model) {
  std::mt19937 random(7);
  std::vector<Job> jobs;
  for (const int32_t length : kLengths) {
    if (length + 20 > model.context_tokens) {
      continue;
    }
    std::vector<Token> prompt;
    for (int32_t i = 0; i < length; ++i) {
      prompt.push_back(static_cast<Token>(random() % static_cast<uint32_t>(model.vocab_tokens)));
    }
    Job job = job_of(jobs.size() + 1, prompt, 8 + length % 7);
    job.ignore_eos = true;
    job.top_logprobs = 4;
    if (jobs.size() % 3 == 1) {  // a third of them draws, a third is penalised as well
      job.sampling.temperature = 4.0f;
      job.sampling.seed = jobs.size();
    } else if (jobs.size() % 3 == 2) {
      job.sampling.temperature = 3.0f;
      job.sampling.top_k = 40;
      job.sampling.top_p = 0.9f;
      job.sampling.seed = 1000 + jobs.size();
      job.sampling.repetition_penalty = 1.2f;
      job.sampling.frequency_penalty = 0.5f;
    }
    jobs.push_back(job);
  }
  return jobs;
}

class EngineInvariance : public testing::TestWithParam<Setting> {
 protected:
  EngineOptions options() const {
    EngineOptions options;
    options.model_path = model_path(GetParam().model);
    options.disable_own_kernels = !GetParam().own_kernels;
    options.max_running_requests = 16;
    options.chunked_prefill_size = 512;
    options.check_every_step = true;
    return options;
  }

  std::unique_ptr<LlmEngine> started(const EngineOptions& options) {
    auto engine = std::make_unique<LlmEngine>(options);
    const Status ready = engine->wait_until_ready(std::chrono::seconds(60));
    EXPECT_TRUE(ready.ok()) << ready.error().message;
    return engine;
  }

  // Each job when it has the engine for itself.
  const Answers& alone() {
    static std::map<std::string, Answers> known;
    Answers& answers = known[name_of({GetParam(), 0})];
    if (answers.empty()) {
      const auto engine = started(options());
      Listener listener(*engine);
      for (const Job& job : jobs_of(engine->model())) {
        const auto id = static_cast<uint64_t>(job.sequence);
        EXPECT_TRUE(engine->submit(job).ok());
        answers[id] = listener.until_end(id);
      }
    }
    return answers;
  }

  Answers together(const EngineOptions& options) {
    const auto engine = started(options);
    Listener listener(*engine);
    Answers answers;
    const std::vector<Job> jobs = jobs_of(engine->model());
    for (const Job& job : jobs) {
      EXPECT_TRUE(engine->submit(job).ok());
    }
    for (const Job& job : jobs) {
      const auto id = static_cast<uint64_t>(job.sequence);
      answers[id] = listener.until_end(id);
    }
    return answers;
  }

  bool same(float a, float b) const {
    if (GetParam().own_kernels) {
      return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
    }
    return std::abs(a - b) < 2e-3f;
  }

  // Plain products differ in the last digits, so a near tie may fall the other way; from there on
  // the texts are different ones and only the way up to it is compared.
  bool near_tie(const TokenOutput& a) const {
    return !GetParam().own_kernels && a.top.size() >= 2 &&
           a.top[0].logprob - a.top[1].logprob < 1e-2f;
  }

  void expect_same(const Heard& expected, const Heard& got, uint64_t id) {
    SCOPED_TRACE("sequence " + std::to_string(id));
    ASSERT_FALSE(expected.outputs.empty());
    ASSERT_EQ(got.last.finish, FinishReason::length) << got.last.error.message;
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      const TokenOutput& a = expected.outputs[i];
      const TokenOutput& b = got.outputs.at(i);
      if (a.token != b.token && near_tie(a)) {
        return;
      }
      ASSERT_EQ(a.token, b.token) << "output " << i;
      ASSERT_TRUE(same(a.logprob, b.logprob))
          << "output " << i << ": " << a.logprob << " and " << b.logprob;
      ASSERT_EQ(a.top.size(), b.top.size());
      for (size_t rank = 0; rank < a.top.size(); ++rank) {
        ASSERT_TRUE(same(a.top[rank].logprob, b.top[rank].logprob)) << i << " rank " << rank;
      }
    }
    ASSERT_EQ(expected.outputs.size(), got.outputs.size());
  }

  void expect_all_same(const Answers& got) {
    for (const auto& [id, heard] : got) {
      expect_same(alone().at(id), heard, id);
    }
  }
};

TEST_P(EngineInvariance, InABatchAsAlone) {
  expect_all_same(together(options()));
}

TEST_P(EngineInvariance, InChunksAsWhole) {
  EngineOptions chunked = options();
  chunked.max_running_requests = 3;
  for (const int32_t chunk : {3, 16, 33}) {
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
    {"llama", true},  {"qwen2", true},     {"qwen3", true},
    {"gemma3", true}, {"qwen3_mlx", true}, {"llama_blocks", true},
    {"llama", false}, {"gemma3", false},   {"qwen3_mlx", false},
};
INSTANTIATE_TEST_SUITE_P(TinyModels, EngineInvariance, testing::ValuesIn(kSettings), name_of);

}  // namespace
}  // namespace pome::engine
