#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>

#include "engine/llm_engine.h"
#include "kernels/backend.h"
#include "support/listener.h"
#include "support/real_weights.h"

// The demo model says to the bit what it says alone, whatever happens around a request.
namespace pome::engine {
namespace {

constexpr const char* kWeights = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr int32_t kOutputs = 24;

// Rows of one product tile and several; 270 positions split a row's keys.
std::vector<Job> demo_jobs() {
  std::vector<Job> jobs;
  for (const int32_t length : {3, 21, 130, 270, 64}) {
    std::vector<Token> prompt;
    for (int32_t i = 0; i < length; ++i) {
      prompt.push_back(1000 + (i * 7919 + length * 31) % 40000);
    }
    Job job = job_of(jobs.size() + 1, prompt, kOutputs);
    job.ignore_eos = true;
    job.top_logprobs = 3;
    job.sampling.temperature = jobs.size() % 2 == 0 ? 0.0f : 0.9f;
    job.sampling.top_p = 0.95f;
    job.sampling.seed = jobs.size();
    jobs.push_back(job);
  }
  return jobs;
}

class DemoInvariance : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::computes_on_cpu()) {
      GTEST_SKIP() << "the default device has no own kernels";
    }
    const auto found = test::find_weights(kWeights);
    if (!found) {
      GTEST_SKIP() << kWeights << " is not in " << test::cache_folder();
    }
    options_.model_path = *found;
    options_.context_length = 512;
    options_.check_every_step = true;
  }

  std::map<uint64_t, Heard> together(const EngineOptions& options, int64_t* retracted = nullptr) {
    LlmEngine engine(options);
    const Status ready = engine.wait_until_ready(std::chrono::seconds(60));
    EXPECT_TRUE(ready.ok()) << ready.error().message;
    Listener listener(engine);
    std::map<uint64_t, Heard> answers;
    for (int round = 0; round < 2; ++round) {  // the second finds its prompts in the cache
      for (Job job : demo_jobs()) {
        job.request = RequestId{static_cast<uint64_t>(job.request) + 100 * round};
        job.sequence = SequenceId{static_cast<uint64_t>(job.sequence) + 100 * round};
        EXPECT_TRUE(engine.submit(job).ok());
      }
      for (const Job& job : demo_jobs()) {
        const auto id = static_cast<uint64_t>(job.sequence) + 100 * round;
        answers[id] = listener.until_end(id);
      }
    }
    if (retracted != nullptr) {
      *retracted = engine.stats().retracted_total;
    }
    return answers;
  }

  static const std::map<uint64_t, Heard>& alone(const EngineOptions& options) {
    static std::map<uint64_t, Heard> answers;
    if (answers.empty()) {
      EngineOptions cold = options;
      cold.disable_radix_cache = true;
      cold.disable_overlap_schedule = true;
      LlmEngine engine(cold);
      EXPECT_TRUE(engine.wait_until_ready(std::chrono::seconds(60)).ok());
      Listener listener(engine);
      for (const Job& job : demo_jobs()) {
        EXPECT_TRUE(engine.submit(job).ok());
        const auto id = static_cast<uint64_t>(job.sequence);
        answers[id] = listener.until_end(id);
      }
    }
    return answers;
  }

  void expect_as_alone(const std::map<uint64_t, Heard>& answers) {
    for (const auto& [id, heard] : answers) {
      SCOPED_TRACE("sequence " + std::to_string(id));
      const Heard& expected = alone(options_).at(id % 100);
      ASSERT_EQ(heard.tokens, expected.tokens);
      ASSERT_EQ(heard.outputs.size(), static_cast<size_t>(kOutputs));
      for (size_t i = 0; i < heard.outputs.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(heard.outputs[i].logprob),
                  std::bit_cast<uint32_t>(expected.outputs[i].logprob))
            << "output " << i;
      }
    }
  }

  EngineOptions options_;
};

TEST_F(DemoInvariance, InACrowdAndAfterAPrefixHit) {
  expect_as_alone(together(options_));
}

TEST_F(DemoInvariance, InSmallChunksWithoutOverlap) {
  options_.chunked_prefill_size = 16;
  options_.disable_overlap_schedule = true;
  expect_as_alone(together(options_));
}

TEST_F(DemoInvariance, InChunksOfEverySize) {
  for (const int32_t chunk : {1, 7, 64}) {
    SCOPED_TRACE("chunks of " + std::to_string(chunk));
    options_.chunked_prefill_size = chunk;
    options_.max_running_requests = std::min(chunk, 3);  // a step has a token for each
    expect_as_alone(together(options_));
  }
}

TEST_F(DemoInvariance, InACrowdOfThirtyFive) {
  options_.max_running_requests = 35;
  LlmEngine engine(options_);
  ASSERT_TRUE(engine.wait_until_ready(std::chrono::seconds(60)).ok());
  Listener listener(engine);
  std::vector<Job> jobs;
  for (uint64_t copy = 0; copy < 7; ++copy) {
    for (Job job : demo_jobs()) {
      job.request = RequestId{static_cast<uint64_t>(job.request) + 100 * copy};
      job.sequence = SequenceId{static_cast<uint64_t>(job.sequence) + 100 * copy};
      job.cache_namespace = std::to_string(copy);
      jobs.push_back(job);
      ASSERT_TRUE(engine.submit(std::move(job)).ok());
    }
  }
  std::map<uint64_t, Heard> answers;
  for (const Job& job : jobs) {
    const auto id = static_cast<uint64_t>(job.sequence);
    answers[id] = listener.until_end(id);
  }
  expect_as_alone(answers);
}

TEST_F(DemoInvariance, AfterAPrefixHitAtEveryLength) {
  options_.page_size = 1;
  LlmEngine engine(options_);
  ASSERT_TRUE(engine.wait_until_ready(std::chrono::seconds(60)).ok());
  Listener listener(engine);
  const Job job = demo_jobs()[1];
  const auto& prompt = job.segments[0].tokens;
  for (size_t length = 1; length < prompt.size(); ++length) {
    Job prefix =
        job_of(5000 + length, {prompt.begin(), prompt.begin() + static_cast<int64_t>(length)}, 1);
    Job whole = job;
    whole.request = RequestId{static_cast<uint64_t>(job.request) + 100 * length};
    whole.sequence = SequenceId{static_cast<uint64_t>(job.sequence) + 100 * length};
    prefix.cache_namespace = whole.cache_namespace = std::to_string(length);
    ASSERT_TRUE(engine.submit(std::move(prefix)).ok());
    listener.until_end(5000 + length);
    ASSERT_TRUE(engine.submit(std::move(whole)).ok());
    const uint64_t id = static_cast<uint64_t>(job.sequence) + 100 * length;
    const Heard heard = listener.until_end(id);
    EXPECT_EQ(heard.last.cached_tokens, static_cast<int32_t>(length));
    expect_as_alone({{id, heard}});
  }
}

TEST_F(DemoInvariance, RetractedAndResumed) {
  options_.context_length = 300;
  options_.max_total_tokens = 300;
  options_.page_size = 4;
  options_.schedule_conservativeness = 0.01;
  int64_t retracted = 0;
  expect_as_alone(together(options_, &retracted));
  EXPECT_GT(retracted, 0);
}

}  // namespace
}  // namespace pome::engine
