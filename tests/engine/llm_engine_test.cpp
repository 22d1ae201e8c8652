#include "engine/llm_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>

#include "scheduler/step_plan_json.h"
#include "tensor/mlx.h"
#include "toy_model.h"

namespace pome::engine {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

EngineOptions options_of() {
  EngineOptions options;
  options.max_running_requests = 4;
  options.page_size = 4;
  options.check_every_step = true;
  options.random_seed = 1;
  return options;
}

std::unique_ptr<LlmEngine> started(EngineOptions options = options_of()) {
  auto engine = std::make_unique<LlmEngine>(std::move(options), toy_loader());
  // MLX compiles kernels for an NVIDIA GPU when they are first used.
  const Status ready = engine->wait_until_ready(std::chrono::seconds(120));
  EXPECT_TRUE(ready.ok()) << ready.error().message;
  return engine;
}

TEST(LlmEngine, SaysWhatTheModelSaysUntilItsEos) {
  const auto engine = started();
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 8; ++id) {
    const std::vector<Token> prompt = toy_prompt(static_cast<int32_t>(id), 1, 3);
    ASSERT_TRUE(engine->submit(job_of(id, prompt, 40)).ok());
    const Heard& heard = listener.until_end(id);
    EXPECT_EQ(heard.tokens, toy_answer(prompt, 40)) << id;
    const bool stopped = heard.tokens.back() == kToyEos;
    EXPECT_EQ(heard.last.finish, stopped ? FinishReason::stop_token : FinishReason::length);
    EXPECT_EQ(heard.last.matched_stop.value_or(-1), stopped ? kToyEos : -1);
    EXPECT_EQ(heard.last.prompt_tokens, static_cast<int32_t>(id));
  }
}

TEST(LlmEngine, SequencesInACrowdSayWhatTheySayAlone) {
  EngineOptions options = options_of();
  options.chunked_prefill_size = 8;
  const auto engine = started(options);
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 12; ++id) {
    const auto n = static_cast<int32_t>(id);
    ASSERT_TRUE(engine->submit(job_of(id, toy_prompt(1 + n * 5, 1, n), 10 + n)).ok());
  }
  for (uint64_t id = 1; id <= 12; ++id) {
    const auto n = static_cast<int32_t>(id);
    EXPECT_EQ(listener.until_end(id).tokens, toy_answer(toy_prompt(1 + n * 5, 1, n), 10 + n));
  }
  EXPECT_EQ(engine->stats().kv_tokens_used, 0);
  EXPECT_EQ(engine->stats().finished_total, 12);
}

TEST(LlmEngine, TheSecondsFirstTokenComesBeforeTheFirstsLast) {
  EngineOptions options = options_of();
  options.before_step = [](const scheduler::StepPlan&) {
    std::this_thread::sleep_for(milliseconds(1));
  };
  const auto engine = started(options);
  Listener listener(*engine);
  ASSERT_TRUE(engine->submit(job_of(1, toy_prompt(5, 200), 200)).ok());
  listener.until_tokens(1, 1);
  ASSERT_TRUE(engine->submit(job_of(2, toy_prompt(5, 5, 2), 5)).ok());
  listener.until_end(1);
  listener.until_end(2);
  const auto& order = listener.order();
  const auto second = std::find(order.begin(), order.end(), 2U);
  EXPECT_NE(std::find(second, order.end(), 1U), order.end());
}

TEST(LlmEngine, HonoursIgnoreEosStopTokensAndMinTokens) {
  const auto engine = started();
  Listener listener(*engine);
  std::vector<Token> prompt = {58};  // EOS is the first thing it says
  ASSERT_EQ(toy_answer(prompt, 1), std::vector<Token>{kToyEos});
  Job ignoring = job_of(1, prompt, 6);
  ignoring.ignore_eos = true;
  Job longer = job_of(2, prompt, 6);
  longer.sampling.min_tokens = 3;
  Job stopping = job_of(3, toy_prompt(4, 8), 8);
  stopping.stop_tokens = {toy_answer(toy_prompt(4, 8), 8)[2]};
  for (const Job& job : {ignoring, longer, stopping}) {
    ASSERT_TRUE(engine->submit(job).ok());
  }
  EXPECT_EQ(listener.until_end(1).tokens, toy_answer(prompt, 6, false));
  EXPECT_GE(listener.until_end(2).tokens.size(), 3U);
  EXPECT_EQ(listener.until_end(3).last.matched_stop, stopping.stop_tokens[0]);
  EXPECT_LE(listener[3].tokens.size(), 3U);
}

TEST(LlmEngine, ReportsLogprobsWhereTheyWereAskedFor) {
  const auto engine = started();
  Listener listener(*engine);
  Job job = job_of(1, toy_prompt(4, 3), 3);
  job.top_logprobs = 2;
  ASSERT_TRUE(engine->submit(job).ok());
  for (const TokenOutput& output : listener.until_end(1).outputs) {
    ASSERT_EQ(output.top.size(), 2U);
    EXPECT_EQ(output.top[0].token, output.token);
    EXPECT_NEAR(output.logprob, 0.0f, 1e-5f);
  }
}

TEST(LlmEngine, RefusesWhatCanNeverRunWithTheArithmetic) {
  const auto engine = started();
  EXPECT_EQ(engine->model().context_tokens, 512);
  EXPECT_TRUE(engine->submit(job_of(1, std::vector<Token>(500, 0), 12)).ok());
  const Status over = engine->submit(job_of(2, std::vector<Token>(500, 0), 13));
  ASSERT_FALSE(over.ok());
  EXPECT_THAT(over.error().message, HasSubstr("500 + max_tokens 13 = 513"));
  EXPECT_FALSE(engine->submit(job_of(3, std::vector<Token>(512, 0), 1)).ok());
  EXPECT_FALSE(engine->submit(job_of(4, {kToyVocabTokens}, 1)).ok());
  Job hot = job_of(5, {1}, 1);
  hot.sampling.temperature = -1.0f;
  EXPECT_EQ(engine->submit(hot).error().field, "temperature");
}

TEST(LlmEngine, JobsAreRefusedWhileTheModelLoadsAndAnsweredAfterwards) {
  std::latch go(1);
  LlmEngine engine(options_of(), [&go]() {
    go.wait();
    return toy_loader()();
  });
  EXPECT_FALSE(engine.stats().ready);
  const Status early = engine.submit(job_of(1, {1, 2}, 4));
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, ErrorCode::unavailable);
  EXPECT_EQ(engine.wait_until_ready(milliseconds(1)).error().code, ErrorCode::timeout);
  EXPECT_TRUE(engine.memory_lines().empty());
  go.count_down();
  ASSERT_TRUE(engine.wait_until_ready(std::chrono::seconds(30)).ok());
  EXPECT_THAT(engine.memory_lines(), testing::Contains(HasSubstr("KV")));
  EXPECT_TRUE(engine.stats().ready);
  EXPECT_EQ(engine.stats().generated_tokens_total, 0) << "the warm-up is not traffic";
  ASSERT_TRUE(engine.submit(job_of(1, {1, 2}, 4)).ok());
  EXPECT_EQ(Listener(engine).until_end(1).tokens, toy_answer({1, 2}, 4));
}

TEST(LlmEngine, ALoadThatFailsSaysWhy) {
  LlmEngine refused(options_of(), []() -> Result<std::unique_ptr<models::LanguageModel>> {
    return invalid("[load] no such file");
  });
  EXPECT_EQ(refused.wait_until_ready(std::chrono::seconds(30)).error().message,
            "[load] no such file");
  LlmEngine threw(options_of(), []() -> Result<std::unique_ptr<models::LanguageModel>> {
    throw std::runtime_error("bad allocation");
  });
  const Status status = threw.wait_until_ready(std::chrono::seconds(30));
  EXPECT_EQ(status.error().code, ErrorCode::internal);
  EXPECT_FALSE(threw.stats().ready);
  EXPECT_EQ(threw.submit(job_of(1, {1}, 1)).error().code, ErrorCode::unavailable);
}

TEST(LlmEngine, AModelThatDoesNotFitIsRefusedBeforeThePoolIsReserved) {
  EngineOptions options = options_of();
  options.max_memory_bytes = 1000;
  LlmEngine engine(options, toy_loader());
  const Status status = engine.wait_until_ready(std::chrono::seconds(30));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr(" of 900 B"));
}

TEST(LlmEngine, RefusesOptionsOutOfRange) {
  EngineOptions options = options_of();
  options.page_size = 12;
  LlmEngine engine(options, toy_loader());
  EXPECT_THAT(engine.wait_until_ready(std::chrono::seconds(30)).error().message,
              HasSubstr("--page-size"));
}

TEST(LlmEngine, ComputesOnTheDeviceThatIsAskedFor) {
  const mx::Device before = mx::default_device();
  EngineOptions options = options_of();
  options.device = DeviceChoice::cpu;
  EXPECT_EQ(started(options)->model().backend.substr(0, 3), "cpu");
  options.device = DeviceChoice::gpu;
  LlmEngine on_gpu(options, toy_loader());
  const Status ready = on_gpu.wait_until_ready(std::chrono::seconds(120));
  if (mx::is_available(mx::Device::gpu)) {
    EXPECT_TRUE(ready.ok());
    EXPECT_EQ(on_gpu.model().backend.substr(0, 3), "gpu");
  } else {
    ASSERT_FALSE(ready.ok());
    EXPECT_EQ(ready.error().field, "device");
  }
  mx::set_default_device(before);
}

TEST(LlmEngine, UsesNoCpuWhileIdle) {
  const auto engine = started();
  Listener listener(*engine);
  ASSERT_TRUE(engine->submit(job_of(1, toy_prompt(6, 5), 5)).ok());
  listener.until_end(1);
  std::this_thread::sleep_for(milliseconds(50));  // workers park
  const auto cpu_ms = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
  };
  const auto before = cpu_ms();
  std::this_thread::sleep_for(milliseconds(400));
  EXPECT_LT(cpu_ms() - before, 20);
  EXPECT_EQ(engine->stats().last_step_age.count(), 0);
}

TEST(LlmEngine, AStuckStepShowsInTheAgeOfTheLastStep) {
  std::latch release(1);
  std::atomic<bool> armed = false;
  EngineOptions options = options_of();
  options.before_step = [&](const scheduler::StepPlan&) {
    if (armed) {
      release.wait();
    }
  };
  const auto engine = started(options);
  std::this_thread::sleep_for(milliseconds(100));
  armed = true;
  ASSERT_TRUE(engine->submit(job_of(1, {1, 2}, 4)).ok());
  EXPECT_LT(engine->stats().last_step_age.count(), 90) << "idle time is not age";
  std::this_thread::sleep_for(milliseconds(150));
  EXPECT_GE(engine->stats().last_step_age.count(), 100);
  release.count_down();
  Listener(*engine).until_end(1);
  EXPECT_EQ(engine->stats().last_step_age.count(), 0);
}

TEST(LlmEngine, UnseededCopiesDifferAndSeededOnesAgree) {
  const auto engine = started();
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 8; ++id) {
    Job job = job_of(id, {1, 2, 3}, 12);
    job.ignore_eos = true;
    job.sampling.temperature = 100.0f;  // nearly uniform
    job.sampling.logit_bias = {{kToyThrows, -100.0f}, {kToyThrowsLate, -100.0f}};
    job.sampling.top_k = 60;
    if (id > 4) {
      job.sampling.seed = 0;
    }
    ASSERT_TRUE(engine->submit(job).ok());
  }
  for (uint64_t id = 1; id <= 8; ++id) {
    EXPECT_EQ(listener.until_end(id).last.finish, FinishReason::length);
  }
  EXPECT_NE(listener[1].tokens, listener[2].tokens);
  EXPECT_NE(listener[3].tokens, listener[4].tokens);
  for (uint64_t id = 6; id <= 8; ++id) {
    EXPECT_EQ(listener[id].tokens, listener[5].tokens);
  }
}

}  // namespace
}  // namespace pome::engine
