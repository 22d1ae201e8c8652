#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>

#include "engine/llm_engine.h"
#include "kernels/backend.h"
#include "toy_model.h"

namespace pome::engine {
namespace {

using std::chrono::milliseconds;

// Lets a test stop the engine at a step and look around.
class Gate {
 public:
  // Waits here in the first step for which `when` holds, until open().
  StepProbe probe(std::function<bool(const scheduler::StepPlan&)> when) {
    return [this, when = std::move(when)](const scheduler::StepPlan& plan) {
      if (!passed_ && when(plan)) {
        passed_ = true;
        reached_.count_down();
        opened_.wait();
      }
    };
  }
  void wait_until_reached() { reached_.wait(); }
  void open() { opened_.count_down(); }

 private:
  std::atomic<bool> passed_ = false;
  std::latch reached_{1};
  std::latch opened_{1};
};

bool has_sequence(const scheduler::StepPlan& plan, uint64_t id) {
  return std::any_of(plan.rows.begin(), plan.rows.end(),
                     [id](const scheduler::Row& row) { return row.sequence == SequenceId{id}; });
}

EngineOptions options_of() {
  EngineOptions options;
  options.max_running_requests = 4;
  options.max_queued_requests = 3;
  options.chunked_prefill_size = 16;
  options.page_size = 4;
  options.check_every_step = true;
  return options;
}

std::unique_ptr<LlmEngine> started(EngineOptions options = options_of()) {
  auto engine = std::make_unique<LlmEngine>(std::move(options), toy_loader());
  const Status ready = engine->wait_until_ready(std::chrono::seconds(30));
  EXPECT_TRUE(ready.ok()) << ready.error().message;
  return engine;
}

// What a step in flight still uses comes back when it is over: one step after the last event.
void expect_empty(const LlmEngine& engine) {
  EngineStats stats = engine.stats();
  for (int i = 0; i < 5000 && stats.running > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
    stats = engine.stats();
  }
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.kv_tokens_used, 0);
}

TEST(EngineCancel, InPrefillEndsTheRequestAndGivesThePagesBack) {
  Gate gate;
  EngineOptions options = options_of();
  options.before_step = gate.probe([](const scheduler::StepPlan& plan) {
    return has_sequence(plan, 1) && plan.rows[0].first_position >= 32;
  });
  const auto engine = started(options);
  ASSERT_TRUE(engine->submit(job_of(1, std::vector<Token>(400, 1), 50)).ok());
  gate.wait_until_reached();
  engine->cancel(RequestId{1});
  gate.open();
  Listener listener(*engine);
  const Heard& heard = listener.until_end(1);
  EXPECT_EQ(heard.last.finish, FinishReason::cancelled);
  EXPECT_TRUE(heard.tokens.empty());
  EXPECT_EQ(engine->stats().cancelled_total, 1);
  EXPECT_LT(engine->stats().prompt_tokens_total, 400);
  expect_empty(*engine);
}

TEST(EngineCancel, InDecodeLeavesTheNeighboursAsTheyAre) {
  EngineOptions options = options_of();
  options.before_step = [](const scheduler::StepPlan&) {
    std::this_thread::sleep_for(milliseconds(1));
  };
  const auto engine = started(options);
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 3; ++id) {
    const std::vector<Token> prompt = toy_prompt(7, 150, static_cast<int32_t>(id));
    ASSERT_TRUE(engine->submit(job_of(id, prompt, 150)).ok());
  }
  listener.until_tokens(2, 20);
  engine->cancel(RequestId{2});
  EXPECT_EQ(listener.until_end(2).last.finish, FinishReason::cancelled);
  EXPECT_LT(listener[2].tokens.size(), 150U);
  EXPECT_EQ(listener.until_end(1).tokens, toy_answer(toy_prompt(7, 150, 1), 150));
  EXPECT_EQ(listener.until_end(3).tokens, toy_answer(toy_prompt(7, 150, 3), 150));
  expect_empty(*engine);
}

TEST(EngineCancel, EndsEverySequenceOfTheRequestAndFinishOnlyOne) {
  EngineOptions options = options_of();
  options.before_step = [](const scheduler::StepPlan&) {
    std::this_thread::sleep_for(milliseconds(1));
  };
  const auto engine = started(options);
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 3; ++id) {
    Job job = job_of(id, toy_prompt(7, 150, static_cast<int32_t>(id)), 150);
    job.request = RequestId{77};
    ASSERT_TRUE(engine->submit(job).ok());
  }
  engine->finish(SequenceId{2});
  EXPECT_EQ(listener.until_end(2).last.finish, FinishReason::cancelled);
  listener.until_tokens(1, 5);
  EXPECT_EQ(listener[1].last.finish, FinishReason::none);
  engine->cancel(RequestId{77});
  engine->cancel(RequestId{12345});
  EXPECT_EQ(listener.until_end(1).last.finish, FinishReason::cancelled);
  EXPECT_EQ(listener.until_end(3).last.finish, FinishReason::cancelled);
  expect_empty(*engine);
}

TEST(EngineCancel, AThousandCyclesLeakNothing) {
  const auto engine = started();
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 1000; ++id) {
    ASSERT_TRUE(engine->submit(job_of(id, toy_prompt(20, 1, 1), 100)).ok());
    engine->cancel(RequestId{id});
    listener.until_end(id);
  }
  expect_empty(*engine);
  EXPECT_EQ(engine->stats().cancelled_total + engine->stats().finished_total, 1000);
}

void expect_recovery(LlmEngine& engine, Listener& listener, uint64_t id) {
  const std::vector<Token> prompt = toy_prompt(9, 10, 5);
  ASSERT_TRUE(engine.submit(job_of(id, prompt, 10)).ok());
  EXPECT_EQ(listener.until_end(id).tokens, toy_answer(prompt, 10));
  expect_empty(engine);
}

TEST(EngineFault, AnExceptionFailsTheRequestsOfItsStepAndNothingElse) {
  EngineOptions options = options_of();
  options.max_running_requests = 2;
  std::atomic<int> steps = 0;
  options.before_step = [&](const scheduler::StepPlan& plan) {
    if (has_sequence(plan, 1) && ++steps == 4) {
      throw std::runtime_error("injected");
    }
  };
  const auto engine = started(options);
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 3; ++id) {
    const std::vector<Token> prompt = toy_prompt(5, 30, static_cast<int32_t>(id));
    ASSERT_TRUE(engine->submit(job_of(id, prompt, 30)).ok());
  }
  for (uint64_t id = 1; id <= 2; ++id) {
    EXPECT_EQ(listener.until_end(id).last.finish, FinishReason::error);
    EXPECT_EQ(listener[id].last.error.code, ErrorCode::internal);
    EXPECT_THAT(listener[id].last.error.message, testing::HasSubstr("injected"));
  }
  EXPECT_EQ(listener.until_end(3).tokens, toy_answer(toy_prompt(5, 30, 3), 30)) << "it waited";
  expect_recovery(*engine, listener, 900);
}

TEST(EngineFault, InASecondPrefillChunkReachesTheClient) {
  EngineOptions options = options_of();
  options.before_step = [](const scheduler::StepPlan& plan) {
    if (has_sequence(plan, 1) && plan.rows[0].first_position > 0) {
      throw std::runtime_error("second chunk");
    }
  };
  const auto engine = started(options);
  Listener listener(*engine);
  ASSERT_TRUE(engine->submit(job_of(1, std::vector<Token>(100, 1), 10)).ok());
  EXPECT_EQ(listener.until_end(1).last.finish, FinishReason::error);
  expect_recovery(*engine, listener, 900);
}

void run_model_fault(Token trigger, bool own_kernels) {
  EngineOptions options = options_of();
  options.disable_own_kernels = !own_kernels;
  const auto engine = started(options);
  Listener listener(*engine);
  ASSERT_TRUE(engine->submit(job_of(1, {1, 2, trigger}, 10)).ok());
  const Heard& heard = listener.until_end(1);
  EXPECT_EQ(heard.last.finish, FinishReason::error);
  EXPECT_THAT(heard.last.error.message, testing::HasSubstr("[toy]"));
  expect_recovery(*engine, listener, 900);
  ASSERT_TRUE(engine->submit(job_of(2, {trigger}, 10)).ok());
  EXPECT_EQ(listener.until_end(2).last.finish, FinishReason::error);
  expect_recovery(*engine, listener, 901);
}

TEST(EngineFault, AModelThatThrowsWhileItsGraphIsBuiltPoisonsNothing) {
  run_model_fault(kToyThrows, true);
  run_model_fault(kToyThrows, false);
}

TEST(EngineFault, ANodeThatThrowsWhileItRunsPoisonsNothing) {
  run_model_fault(kToyThrowsLate, true);
  run_model_fault(kToyThrowsLate, false);
}

TEST(EngineLimits, TakesAFullQueueRefusesOneMoreAndAnswersTheRest) {
  Gate gate;
  EngineOptions options = options_of();
  options.before_step = gate.probe([](const auto& plan) { return has_sequence(plan, 1); });
  const auto engine = started(options);
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 7; ++id) {  // 4 run and 3 wait
    ASSERT_TRUE(engine->submit(job_of(id, toy_prompt(4, 3, static_cast<int32_t>(id)), 3)).ok());
  }
  const Status refused = engine->submit(job_of(8, {1}, 3));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::queue_full);
  gate.open();
  for (uint64_t id = 1; id <= 7; ++id) {
    EXPECT_EQ(listener.until_end(id).tokens,
              toy_answer(toy_prompt(4, 3, static_cast<int32_t>(id)), 3));
  }
  EXPECT_TRUE(engine->submit(job_of(8, {1}, 3)).ok()) << "there is room again";
  listener.until_end(8);
  expect_empty(*engine);
}

TEST(EngineLimits, LargeRequestsWaitForPagesInsteadOfFailing) {
  EngineOptions options = options_of();
  options.max_queued_requests = 100;
  options.max_total_tokens = 520;  // one full sequence
  const auto engine = started(options);
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 6; ++id) {
    const std::vector<Token> prompt = toy_prompt(300, 1, static_cast<int32_t>(id));
    ASSERT_TRUE(engine->submit(job_of(id, prompt, 20)).ok());
  }
  for (uint64_t id = 1; id <= 6; ++id) {
    EXPECT_EQ(listener.until_end(id).tokens,
              toy_answer(toy_prompt(300, 1, static_cast<int32_t>(id)), 20));
  }
  expect_empty(*engine);
}

TEST(EngineLimits, MemoryAfterManyRequestsIsWhatItWasAfterAFew) {
  const auto engine = started();
  Listener listener(*engine);
  const auto active_bytes = [&] {
    for (const MemoryFigure& figure : engine->details().memory) {
      if (figure.item == "MLX active") {
        return figure.measured_bytes.value();
      }
    }
    return int64_t{-1};
  };
  int64_t after_a_few = -1;
  for (uint64_t id = 1; id <= 300; ++id) {
    const auto tokens = static_cast<int32_t>(1 + id * 37 % 200);
    ASSERT_TRUE(
        engine->submit(job_of(id, std::vector<Token>(static_cast<size_t>(tokens), 1), 4)).ok());
    listener.until_end(id);
    if (id == 30) {
      after_a_few = active_bytes();
    }
  }
  EXPECT_GE(after_a_few, 0);
  // A GPU gives the last step's temporaries back a moment after its results.
  const int64_t in_flight = kernels::computes_on_cpu() ? 0 : int64_t{64} << 10;
  EXPECT_LE(active_bytes(), after_a_few + after_a_few / 100 + in_flight);
}

TEST(EngineShutdown, DrainAnswersWhatWasAcceptedAndRefusesTheRest) {
  EngineOptions options = options_of();
  options.before_step = [](const scheduler::StepPlan&) {
    std::this_thread::sleep_for(milliseconds(1));
  };
  const auto engine = started(options);
  Listener listener(*engine);
  ASSERT_TRUE(engine->submit(job_of(1, toy_prompt(5, 50), 50)).ok());
  engine->drain();
  EXPECT_EQ(engine->submit(job_of(2, {1}, 1)).error().code, ErrorCode::unavailable);
  EXPECT_TRUE(engine->stats().draining);
  EXPECT_EQ(listener.until_end(1).tokens, toy_answer(toy_prompt(5, 50), 50));
}

TEST(EngineShutdown, StopEndsEverythingWithCancelledAndJoins) {
  EngineOptions options = options_of();
  options.before_step = [](const scheduler::StepPlan&) {
    std::this_thread::sleep_for(milliseconds(1));
  };
  const auto engine = started(options);
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 6; ++id) {
    ASSERT_TRUE(engine->submit(job_of(id, toy_prompt(5, 400, static_cast<int32_t>(id)), 400)).ok());
  }
  listener.until_tokens(1, 3);
  engine->stop();
  for (uint64_t id = 1; id <= 6; ++id) {
    EXPECT_EQ(listener.until_end(id).last.finish, FinishReason::cancelled) << id;
  }
  EXPECT_EQ(engine->submit(job_of(7, {1}, 1)).error().code, ErrorCode::unavailable);
  engine->stop();
}

TEST(EngineShutdown, AnEngineWithoutAModelWaitsForStopAndUsesNoCpu) {
  LlmEngine engine(options_of(), []() -> Result<std::unique_ptr<models::LanguageModel>> {
    return invalid("[load] no such file");
  });
  EXPECT_FALSE(engine.wait_until_ready(std::chrono::seconds(30)).ok());
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(engine.wait_events(milliseconds(100)).empty());
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(90));
}

TEST(EngineShutdown, StopWhileLoadingJoins) {
  for (int i = 0; i < 5; ++i) {
    LlmEngine engine(options_of(), toy_loader());
    engine.stop();
  }
}

TEST(EngineShutdown, EnginesCanComeAndGo) {
  for (int i = 0; i < 5; ++i) {
    const auto engine = started();
    Listener listener(*engine);
    ASSERT_TRUE(engine->submit(job_of(1, {1, 2, 3}, 4)).ok());
    EXPECT_EQ(listener.until_end(1).tokens, toy_answer({1, 2, 3}, 4));
  }
}

}  // namespace
}  // namespace pome::engine
