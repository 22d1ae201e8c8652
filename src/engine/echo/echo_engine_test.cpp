#include "engine/echo/echo_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "sampling/params_check.h"

namespace pome::engine {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

Job job_of(uint64_t id, std::vector<Token> prompt, int32_t max_tokens = 100) {
  Job job;
  job.request = RequestId{id};
  job.sequence = SequenceId{id};
  job.segments = {{std::move(prompt)}};
  job.max_tokens = max_tokens;
  return job;
}

struct Heard {
  std::vector<Token> tokens;
  std::vector<TokenOutput> outputs;
  Event last;
};

// Listens until `count` sequences have ended.
std::map<uint64_t, Heard> listen(Engine& engine, size_t count) {
  std::map<uint64_t, Heard> heard;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (size_t ended = 0; ended < count && std::chrono::steady_clock::now() < deadline;) {
    for (const Event& event : engine.wait_events(milliseconds(200))) {
      Heard& one = heard[static_cast<uint64_t>(event.sequence)];
      EXPECT_EQ(one.last.finish, FinishReason::none) << "an event after the last";
      for (const TokenOutput& output : event.tokens) {
        one.tokens.push_back(output.token);
        one.outputs.push_back(output);
      }
      one.last = event;
      ended += event.finish != FinishReason::none ? 1 : 0;
    }
  }
  return heard;
}

TEST(EchoEngine, SaysThePromptAndThenEos) {
  EchoEngine engine;
  ASSERT_TRUE(engine.submit(job_of(1, {7, 8, 9})).ok());
  const Heard heard = listen(engine, 1)[1];
  EXPECT_THAT(heard.tokens, ElementsAre(7, 8, 9, 256));
  EXPECT_EQ(heard.last.finish, FinishReason::stop_token);
  EXPECT_EQ(heard.last.matched_stop, 256);
  EXPECT_EQ(heard.last.prompt_tokens, 3);
  EXPECT_EQ(heard.last.completion_tokens, 4);
}

TEST(EchoEngine, StopsAtMaxTokensWithLength) {
  EchoEngine engine;
  ASSERT_TRUE(engine.submit(job_of(1, {7, 8, 9}, 2)).ok());
  const Heard heard = listen(engine, 1)[1];
  EXPECT_THAT(heard.tokens, ElementsAre(7, 8));
  EXPECT_EQ(heard.last.finish, FinishReason::length);
}

TEST(EchoEngine, WrapsAroundWhileEosIsIgnoredOrTooEarly) {
  EchoEngine engine;
  Job ignoring = job_of(1, {7, 8}, 5);
  ignoring.ignore_eos = true;
  Job longer = job_of(2, {7, 8});
  longer.sampling.min_tokens = 3;
  ASSERT_TRUE(engine.submit(ignoring).ok());
  ASSERT_TRUE(engine.submit(longer).ok());
  auto heard = listen(engine, 2);
  EXPECT_THAT(heard[1].tokens, ElementsAre(7, 8, 7, 8, 7));
  EXPECT_THAT(heard[2].tokens, ElementsAre(7, 8, 7, 256));
}

TEST(EchoEngine, EndsAtAStopTokenAndReportsIt) {
  EchoEngine engine;
  Job job = job_of(1, {7, 8, 9});
  job.stop_tokens = {8};
  ASSERT_TRUE(engine.submit(job).ok());
  const Heard heard = listen(engine, 1)[1];
  EXPECT_THAT(heard.tokens, ElementsAre(7, 8));
  EXPECT_EQ(heard.last.matched_stop, 8);
}

TEST(EchoEngine, GivesWellFormedLogprobs) {
  EchoEngine engine;
  Job job = job_of(1, {255}, 1);
  job.top_logprobs = 3;
  ASSERT_TRUE(engine.submit(job).ok());
  const Heard heard = listen(engine, 1)[1];
  const TokenOutput& output = heard.outputs.at(0);
  ASSERT_EQ(output.top.size(), 3U);
  EXPECT_EQ(output.top[0].token, 255);
  EXPECT_EQ(output.top[2].token, 0);
  EXPECT_FLOAT_EQ(output.logprob, -std::log(2.0f));
  EXPECT_GT(output.top[0].logprob, output.top[1].logprob);
}

TEST(EchoEngine, WholePagesOfAnEarlierPromptAreCachedButNeverTheLastToken) {
  EchoEngine engine({.page_tokens = 2});
  const auto cached_of = [&](uint64_t id, std::vector<Token> prompt, std::string in = {}) {
    Job job = job_of(id, std::move(prompt));
    job.cache_namespace = std::move(in);
    EXPECT_TRUE(engine.submit(job).ok());
    return listen(engine, 1)[id].last.cached_tokens;
  };
  EXPECT_EQ(cached_of(1, {1, 2, 3, 4}), 0);
  EXPECT_EQ(cached_of(2, {1, 2, 3, 4}), 2);
  EXPECT_EQ(cached_of(3, {1, 2, 3, 9}), 2);
  EXPECT_EQ(cached_of(4, {1, 2, 3, 4, 5, 6}), 4);
  EXPECT_EQ(cached_of(5, {1, 2, 3, 4, 5}, "tenant"), 0) << "another namespace shares nothing";
  EXPECT_EQ(cached_of(6, {1, 2, 3, 4, 5}, "tenant"), 4);
  EXPECT_EQ(engine.stats().cached_tokens_total, 2 + 2 + 4 + 4);
  EXPECT_EQ(engine.stats().prompt_tokens_total, 28 - 12);
}

TEST(EchoEngine, AScoredPromptIsComputedFromItsFirstScoreOn) {
  EchoEngine engine({.page_tokens = 1});
  ASSERT_TRUE(engine.submit(job_of(1, {1, 2, 3, 4})).ok());
  listen(engine, 1);
  Job job = job_of(2, {1, 2, 3, 4});
  job.top_logprobs = 0;
  job.score_from = 2;
  ASSERT_TRUE(engine.submit(job).ok());
  EXPECT_EQ(listen(engine, 1)[2].last.cached_tokens, 1);
}

TEST(EchoEngine, AFlushedCacheIsEmptyAndOldPromptsAreForgottenInOrder) {
  EchoEngine engine({.page_tokens = 1, .cached_prompts_max = 2});
  const auto cached_of = [&](uint64_t id, std::vector<Token> prompt) {
    EXPECT_TRUE(engine.submit(job_of(id, std::move(prompt))).ok());
    return listen(engine, 1)[id].last.cached_tokens;
  };
  EXPECT_EQ(cached_of(1, {1, 2, 3}), 0);
  EXPECT_EQ(cached_of(6, {1, 2, 3}), 2);
  ASSERT_TRUE(engine.flush_cache().ok());
  EXPECT_EQ(cached_of(2, {1, 2, 3}), 0);
  EXPECT_EQ(cached_of(3, {4, 5, 6}), 0);
  EXPECT_EQ(cached_of(4, {7, 8, 9}), 0);
  EXPECT_EQ(cached_of(5, {1, 2, 3}), 0) << "two came after it";
  EXPECT_GT(engine.stats().evicted_tokens_total, 0);
  engine.stop();
  EXPECT_EQ(engine.flush_cache().error().code, ErrorCode::unavailable);
}

TEST(EchoEngine, ByPriorityTheLargestIsNextAndEqualsKeepTheirOrder) {
  EchoEngine engine({.max_running_requests = 1,
                     .by_priority = true,
                     .script_for = scripts_in_order({{.start_delay = milliseconds(100)}})});
  const int32_t priorities[] = {0, 1, 5, 1, 5};
  for (uint64_t id = 1; id <= 5; ++id) {
    Job job = job_of(id, {7}, 1);
    job.priority = priorities[id - 1];
    ASSERT_TRUE(engine.submit(job).ok());
  }
  std::vector<uint64_t> order;
  while (order.size() < 5) {
    for (const Event& event : engine.wait_events(milliseconds(200))) {
      order.push_back(static_cast<uint64_t>(event.sequence));
    }
  }
  EXPECT_THAT(order, testing::AnyOf(ElementsAre(1, 3, 5, 2, 4), ElementsAre(3, 5, 2, 4, 1)));
}

TEST(EchoEngine, ScoresThePromptInRunsBeforeTheFirstToken) {
  EchoEngine engine;
  std::vector<Token> prompt;
  for (Token token = 0; token < 100; ++token) {
    prompt.push_back(token);
  }
  Job job = job_of(1, prompt, 2);
  job.score_from = 0;
  job.top_logprobs = 2;
  job.logprob_tokens = {50};
  ASSERT_TRUE(engine.submit(job).ok());
  std::vector<TokenOutput> scores;
  bool ended = false;
  while (!ended) {
    for (const Event& event : engine.wait_events(milliseconds(200))) {
      if (!event.prompt_scores.empty()) {
        EXPECT_EQ(event.score_position, static_cast<int32_t>(scores.size()) + 1);
        EXPECT_EQ(event.completion_tokens, 0);
      }
      scores.insert(scores.end(), event.prompt_scores.begin(), event.prompt_scores.end());
      ended = event.finish != FinishReason::none;
    }
  }
  ASSERT_EQ(scores.size(), 99U) << "the first token has none";
  EXPECT_EQ(scores[0].token, 1);
  EXPECT_EQ(scores[98].token, 99);
  EXPECT_EQ(scores[98].top.size(), 2U);
  EXPECT_FLOAT_EQ(scores[48].requested.at(0).logprob, -2.0f * std::log(2.0f));
}

TEST(EchoEngine, APromptAloneEndsWithLengthAndSaysNothing) {
  EchoEngine engine;
  Job scored = job_of(1, {7, 8, 9}, 0);
  scored.score_from = 2;
  ASSERT_TRUE(engine.submit(scored).ok());
  ASSERT_TRUE(engine.submit(job_of(2, {7}, 0)).ok());
  auto heard = listen(engine, 2);
  for (const uint64_t id : {1, 2}) {
    EXPECT_EQ(heard[id].last.finish, FinishReason::length);
    EXPECT_TRUE(heard[id].tokens.empty());
  }
  ASSERT_EQ(heard[1].last.prompt_scores.size(), 1U);
  EXPECT_EQ(heard[1].last.score_position, 2);
  EXPECT_TRUE(heard[2].last.prompt_scores.empty());
}

TEST(EchoEngine, RefusesMoreTokensAtLeastThanAtMost) {
  EchoEngine engine;
  Job job = job_of(1, {7, 8}, 5);
  job.sampling.min_tokens = 5;
  EXPECT_TRUE(engine.submit(job).ok());
  job.sampling.min_tokens = 6;
  EXPECT_EQ(engine.submit(job).error().field, "min_tokens");
}

TEST(EchoEngine, RefusesScoresOfWhatIsNotThere) {
  EchoEngine engine;
  Job job = job_of(1, {7, 8});
  for (const auto& [from, ok] : {std::pair{-2, false}, {2, false}, {1, true}}) {
    job.score_from = from;
    EXPECT_EQ(engine.submit(job).ok(), ok) << from;
  }
  job.logprob_tokens = {257};
  EXPECT_EQ(engine.submit(job).error().field, "logprob_tokens");
  job.logprob_tokens.assign(sampling::kLogprobTokensMax, 1);
  EXPECT_TRUE(engine.submit(job).ok());
  job.logprob_tokens.push_back(1);
  EXPECT_EQ(engine.submit(job).error().field, "logprob_tokens");
  job.logprob_tokens = {1};
  job.score_from = -1;
  EXPECT_EQ(engine.submit(job).error().field, "logprob_tokens");
  job.top_logprobs = 0;
  EXPECT_TRUE(engine.submit(job).ok());
}

TEST(EchoEngine, RepliesOfSeveralSequencesInterleave) {
  EchoEngine engine({.token_delay = milliseconds(2)});
  ASSERT_TRUE(engine.submit(job_of(1, std::vector<Token>(50, 1))).ok());
  ASSERT_TRUE(engine.submit(job_of(2, {2, 2})).ok());
  std::vector<uint64_t> ends;
  while (ends.size() < 2) {
    for (const Event& event : engine.wait_events(milliseconds(200))) {
      if (event.finish != FinishReason::none) {
        ends.push_back(static_cast<uint64_t>(event.sequence));
      }
    }
  }
  EXPECT_THAT(ends, ElementsAre(2, 1));
}

TEST(EchoEngine, ReplaysScriptsInTheOrderOfSubmission) {
  EchoEngine engine({.script_for = scripts_in_order({{.tokens = {5, 6}}, {.tokens = {4}}})});
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(engine.submit(job_of(id, {9})).ok());
  }
  auto heard = listen(engine, 3);
  EXPECT_THAT(heard[1].tokens, ElementsAre(5, 6, 256));
  EXPECT_THAT(heard[2].tokens, ElementsAre(4, 256));
  EXPECT_THAT(heard[3].tokens, ElementsAre(9, 256));
}

TEST(EchoEngine, AScriptedFailureEndsOnlyItsOwnSequence) {
  EchoEngine engine({.script_for = scripts_in_order({{.fail_at = 1}})});
  ASSERT_TRUE(engine.submit(job_of(1, {7, 8})).ok());
  ASSERT_TRUE(engine.submit(job_of(2, {7, 8})).ok());
  auto heard = listen(engine, 2);
  EXPECT_THAT(heard[1].tokens, ElementsAre(7));
  EXPECT_EQ(heard[1].last.finish, FinishReason::error);
  EXPECT_EQ(heard[1].last.error.code, ErrorCode::internal);
  EXPECT_THAT(heard[2].tokens, ElementsAre(7, 8, 256));
}

TEST(EchoEngine, AThrowingStepFailsItsSequencesAndTheEngineLives) {
  EchoEngine engine(
      {.token_delay = milliseconds(1),
       .script_for = scripts_in_order({{.start_delay = milliseconds(200), .throw_at = 0}})});
  ASSERT_TRUE(engine.submit(job_of(1, {7, 8, 9, 10})).ok());
  ASSERT_TRUE(engine.submit(job_of(2, std::vector<Token>(4000, 1), 4000)).ok());
  auto heard = listen(engine, 2);
  EXPECT_EQ(heard[1].last.finish, FinishReason::error);
  EXPECT_EQ(heard[2].last.finish, FinishReason::error);
  ASSERT_TRUE(engine.submit(job_of(3, {7})).ok());
  EXPECT_EQ(listen(engine, 1)[3].last.finish, FinishReason::stop_token);
}

TEST(EchoEngine, CancelEndsEverySequenceOfARequestWaitingOnesToo) {
  EchoEngine engine({.max_running_requests = 1, .token_delay = milliseconds(1)});
  Job first = job_of(1, std::vector<Token>(5000, 1), 3000);
  Job second = job_of(2, {1});
  second.request = RequestId{1};
  ASSERT_TRUE(engine.submit(first).ok());
  ASSERT_TRUE(engine.submit(second).ok());
  ASSERT_TRUE(engine.submit(job_of(3, {4})).ok());
  engine.cancel(RequestId{1});
  auto heard = listen(engine, 3);
  EXPECT_EQ(heard[1].last.finish, FinishReason::cancelled);
  EXPECT_EQ(heard[2].last.finish, FinishReason::cancelled);
  EXPECT_EQ(heard[3].last.finish, FinishReason::stop_token);
  EXPECT_EQ(engine.stats().running, 0);
  EXPECT_EQ(engine.stats().waiting, 0);
}

TEST(EchoEngine, FinishEndsOneSequenceAndLeavesItsSiblings) {
  EchoEngine engine({.token_delay = milliseconds(1)});
  Job sibling = job_of(2, {3});
  sibling.request = RequestId{1};
  ASSERT_TRUE(engine.submit(job_of(1, std::vector<Token>(5000, 1), 3000)).ok());
  ASSERT_TRUE(engine.submit(sibling).ok());
  engine.finish(SequenceId{1});
  auto heard = listen(engine, 2);
  EXPECT_EQ(heard[1].last.finish, FinishReason::cancelled);
  EXPECT_EQ(heard[2].last.finish, FinishReason::stop_token);
}

TEST(EchoEngine, TakesAFullQueueAndRefusesOneMore) {
  EchoEngine engine(
      {.max_running_requests = 1,
       .max_queued_requests = 2,
       .script_for = scripts_in_order({{.hang_at = 0, .hang = milliseconds(60000)}})});
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(engine.submit(job_of(id, {1})).ok()) << id;
  }
  const Status refused = engine.submit(job_of(4, {1}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::queue_full);
}

TEST(EchoEngine, DrainingRefusesNewJobsAndEndsTheOldOnes) {
  EchoEngine engine({.token_delay = milliseconds(1)});
  ASSERT_TRUE(engine.submit(job_of(1, {7, 8})).ok());
  engine.drain();
  const Status refused = engine.submit(job_of(2, {1}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_EQ(listen(engine, 1)[1].last.finish, FinishReason::stop_token);
  EXPECT_TRUE(engine.stats().draining);
}

TEST(EchoEngine, StopCancelsWhatIsLeftEvenInAHangingStep) {
  EchoEngine engine(
      {.script_for = scripts_in_order({{.hang_at = 0, .hang = milliseconds(60000)}})});
  ASSERT_TRUE(engine.submit(job_of(1, {1})).ok());
  engine.stop();
  EXPECT_EQ(listen(engine, 1)[1].last.finish, FinishReason::cancelled);
}

TEST(EchoEngine, AHangingStepShowsInTheAgeOfTheLastStep) {
  EchoEngine engine(
      {.script_for = scripts_in_order({{.hang_at = 0, .hang = milliseconds(60000)}})});
  ASSERT_TRUE(engine.submit(job_of(1, {1})).ok());
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_GE(engine.stats().last_step_age.count(), 30);
}

// The age of the step before an idle hour is nobody's: looked at before the first step begins.
TEST(EchoEngine, TheAgeCountsFromWhenThereWasSomethingToDo) {
  for (int i = 0; i < 200; ++i) {
    EchoEngine engine;
    ASSERT_TRUE(engine.submit(job_of(1, {1})).ok());
    ASSERT_LT(engine.stats().last_step_age.count(), 60000);
  }
}

TEST(EchoEngine, RefusesWhatCanNeverFitWithTheArithmetic) {
  EchoEngine engine;
  ASSERT_TRUE(engine.submit(job_of(1, std::vector<Token>(8000, 1), 192)).ok());
  ASSERT_TRUE(engine.submit(job_of(6, std::vector<Token>(8192, 1), 0)).ok());
  EXPECT_FALSE(engine.submit(job_of(7, std::vector<Token>(8193, 1), 0)).ok());
  EXPECT_FALSE(engine.submit(job_of(8, std::vector<Token>(8192, 1), 1)).ok());
  const Status over = engine.submit(job_of(2, std::vector<Token>(8000, 1), 193));
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().field, "max_tokens");
  EXPECT_THAT(over.error().message, testing::HasSubstr("8000 + max_tokens 193 = 8193"));
  EXPECT_FALSE(engine.submit(job_of(3, {})).ok());
  EXPECT_FALSE(engine.submit(job_of(4, {257})).ok());
  Job stop = job_of(6, {1});
  stop.stop_tokens = {256};
  EXPECT_TRUE(engine.submit(stop).ok());
  stop.stop_tokens = {257};
  EXPECT_EQ(engine.submit(stop).error().field, "stop_token_ids");
  EXPECT_FALSE(engine.submit(job_of(5, {1}, -1)).ok());
}

TEST(EchoEngine, IsUnavailableUntilItIsReady) {
  EchoEngine engine({.ready_delay = milliseconds(60000)});
  EXPECT_FALSE(engine.stats().ready);
  EXPECT_EQ(engine.wait_until_ready(milliseconds(1)).error().code, ErrorCode::timeout);
  const Status refused = engine.submit(job_of(1, {1}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_EQ(engine.model().context_tokens, 0) << "an unloaded model has no context yet";
}

TEST(EchoEngine, WaitingForReadinessEndsWhenItIsReadyAndWhenItStops) {
  EchoEngine quick({.ready_delay = milliseconds(20)});
  EXPECT_TRUE(quick.wait_until_ready(std::chrono::seconds(30)).ok());
  EXPECT_TRUE(quick.stats().ready);
  EchoEngine slow({.ready_delay = std::chrono::hours(1)});
  std::thread stopper([&] { slow.stop(); });
  EXPECT_EQ(slow.wait_until_ready(std::chrono::minutes(30)).error().code, ErrorCode::unavailable);
  stopper.join();
}

}  // namespace
}  // namespace pome::engine
