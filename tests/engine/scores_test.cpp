// Log probabilities of prompts, prompts without an answer, and logits that are no numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/llm_engine.h"
#include "toy_model.h"

namespace pome::engine {
namespace {

using testing::HasSubstr;

EngineOptions options_of(int32_t chunk = 8) {
  EngineOptions options;
  options.max_running_requests = 4;
  options.page_size = 4;
  options.chunked_prefill_size = chunk;
  options.check_every_step = true;
  options.random_seed = 1;
  return options;
}

std::unique_ptr<LlmEngine> started(EngineOptions options = options_of()) {
  auto engine = std::make_unique<LlmEngine>(std::move(options), toy_loader());
  const Status ready = engine->wait_until_ready(std::chrono::seconds(30));
  EXPECT_TRUE(ready.ok()) << ready.error().message;
  return engine;
}

// The toy gives its next token e^20 times the weight of each of the 63 others.
float toy_score(const std::vector<Token>& prompt, size_t position) {
  int64_t sum = 1;
  for (size_t i = 0; i < position; ++i) {
    sum += prompt[i];
  }
  const bool says_it = prompt[position] == sum % 60;
  return static_cast<float>((says_it ? 20.0 : 0.0) - std::log(std::exp(20.0) + 63.0));
}

// A prompt some of whose tokens are what the toy would have said.
std::vector<Token> mixed_prompt(int32_t tokens) {
  std::vector<Token> prompt = {3};
  while (static_cast<int32_t>(prompt.size()) < tokens) {
    prompt.push_back(prompt.size() % 3 == 0 ? 7 : toy_answer(prompt, 1, false)[0]);
  }
  return prompt;
}

void expect_scores(const Heard& heard, const std::vector<Token>& prompt, int32_t from) {
  const auto begin = static_cast<size_t>(std::max(from, 1));
  ASSERT_EQ(heard.scores.size(), prompt.size() - std::min(begin, prompt.size()));
  for (size_t i = 0; i < heard.scores.size(); ++i) {
    EXPECT_EQ(heard.scores[i].token, prompt[begin + i]);
    EXPECT_NEAR(heard.scores[i].logprob, toy_score(prompt, begin + i), 1e-4f) << begin + i;
  }
}

TEST(Scores, StartAtEveryPositionColdAndWarm) {
  const auto engine = started();
  Listener listener(*engine);
  const std::vector<Token> prompt = mixed_prompt(30);
  uint64_t id = 0;
  for (int32_t from = 0; from < 30; ++from) {
    for (const int32_t max_tokens : {0, 3}) {
      Job job = job_of(++id, prompt, max_tokens);
      job.ignore_eos = true;
      job.score_from = from;
      ASSERT_TRUE(engine->submit(job).ok());
      const Heard& heard = listener.until_end(id);
      SCOPED_TRACE(testing::Message() << "from " << from << ", " << max_tokens << " tokens");
      expect_scores(heard, prompt, from);
      EXPECT_EQ(heard.tokens, toy_answer(prompt, max_tokens, false));
      EXPECT_EQ(heard.last.finish, FinishReason::length);
      // What stands before the first score may come from the cache, and nothing else.
      EXPECT_LE(heard.last.cached_tokens, std::max(from - 1, 0));
      if (from == 29) {
        EXPECT_EQ(heard.last.cached_tokens, 28);
      }
    }
  }
  EXPECT_EQ(engine->stats().kv_tokens_used, 0);
}

TEST(Scores, NameTheBestAndTheRequestedAtEachPosition) {
  const auto engine = started();
  Listener listener(*engine);
  const std::vector<Token> prompt = mixed_prompt(20);
  Job job = job_of(1, prompt, 2);
  job.score_from = 5;
  job.top_logprobs = 2;
  job.logprob_tokens = {7, 0};
  ASSERT_TRUE(engine->submit(job).ok());
  const Heard& heard = listener.until_end(1);
  std::vector<TokenOutput> all = heard.scores;
  all.insert(all.end(), heard.outputs.begin(), heard.outputs.end());
  ASSERT_EQ(all.size(), 17U);
  for (const TokenOutput& one : all) {
    ASSERT_EQ(one.top.size(), 2U);
    EXPECT_GE(one.top[0].logprob, one.logprob);
    ASSERT_EQ(one.requested.size(), 2U);
    EXPECT_EQ(one.requested[0].token, 7);
    if (one.token == 7) {
      EXPECT_EQ(one.requested[0].logprob, one.logprob);
    }
  }
}

TEST(Scores, StandBesideAnswersInTheSameSteps) {
  const auto engine = started();
  Listener listener(*engine);
  for (uint64_t id = 1; id <= 12; ++id) {
    Job job = job_of(id, id % 2 == 0 ? mixed_prompt(40) : toy_prompt(5, 12, 1), 12);
    job.ignore_eos = true;
    job.score_from = id % 2 == 0 ? static_cast<int32_t>(id) : -1;
    ASSERT_TRUE(engine->submit(job).ok());
  }
  for (uint64_t id = 1; id <= 12; ++id) {
    const std::vector<Token> prompt = id % 2 == 0 ? mixed_prompt(40) : toy_prompt(5, 12, 1);
    const Heard& heard = listener.until_end(id);
    EXPECT_EQ(heard.tokens, toy_answer(prompt, 12, false));
    if (id % 2 == 0) {
      expect_scores(heard, prompt, static_cast<int32_t>(id));
    } else {
      EXPECT_TRUE(heard.scores.empty());
    }
  }
}

TEST(Scores, APromptWithoutAnAnswerFillsTheCache) {
  const auto engine = started();
  Listener listener(*engine);
  const std::vector<Token> prompt = toy_prompt(40, 5);
  ASSERT_TRUE(engine->submit(job_of(1, prompt, 0)).ok());
  EXPECT_EQ(listener.until_end(1).last.finish, FinishReason::length);
  EXPECT_TRUE(listener[1].tokens.empty());
  ASSERT_TRUE(engine->submit(job_of(2, prompt, 5)).ok());
  EXPECT_EQ(listener.until_end(2).tokens, toy_answer(prompt, 5));
  EXPECT_GE(listener[2].last.cached_tokens, 36);
  ASSERT_TRUE(engine->submit(job_of(3, {7}, 0)).ok());
  EXPECT_EQ(listener.until_end(3).last.finish, FinishReason::length);
}

TEST(BrokenLogits, EndTheirSequenceWithAnErrorAndNoOther) {
  for (const bool overlap : {true, false}) {
    EngineOptions options = options_of();
    options.disable_overlap_schedule = !overlap;
    const auto engine = started(options);
    Listener listener(*engine);
    for (uint64_t id = 1; id <= 9; ++id) {
      std::vector<Token> prompt = toy_prompt(6, 20, static_cast<int32_t>(id));
      if (id % 3 == 0) {
        prompt.push_back(kToyBreaks);
      }
      Job job = job_of(id, prompt, 20);
      job.top_logprobs = id % 2 == 0 ? 1 : -1;
      ASSERT_TRUE(engine->submit(job).ok());
    }
    for (uint64_t id = 1; id <= 9; ++id) {
      const Heard& heard = listener.until_end(id);
      if (id % 3 == 0) {
        EXPECT_EQ(heard.last.finish, FinishReason::error);
        EXPECT_EQ(heard.last.error.code, ErrorCode::internal);
        EXPECT_THAT(heard.last.error.message, HasSubstr("not finite"));
        EXPECT_TRUE(heard.tokens.empty());
      } else {
        EXPECT_EQ(heard.tokens, toy_answer(toy_prompt(6, 20, static_cast<int32_t>(id)), 20));
      }
    }
    EXPECT_EQ(engine->stats().kv_tokens_used, 0);
  }
}

// A breaking token that was said, not given: what it says stands, and what follows is the error.
TEST(BrokenLogits, InMidAnswerLeaveWhatWasSaid) {
  const auto engine = started();
  Listener listener(*engine);
  Job job = job_of(1, toy_prompt(6, 20), 20);
  job.sampling.min_tokens = 1;
  job.sampling.logit_bias = {{kToyBreaks, 100.0f}};
  ASSERT_TRUE(engine->submit(job).ok());
  ASSERT_TRUE(engine->submit(job_of(2, toy_prompt(6, 20, 2), 20)).ok());
  const Heard& heard = listener.until_end(1);
  EXPECT_EQ(heard.last.finish, FinishReason::error);
  EXPECT_EQ(heard.tokens, std::vector<Token>{kToyBreaks});
  EXPECT_EQ(listener.until_end(2).tokens, toy_answer(toy_prompt(6, 20, 2), 20));
}

TEST(BrokenLogits, OfAScoredPositionAreAnErrorToo) {
  const auto engine = started();
  Listener listener(*engine);
  std::vector<Token> prompt = mixed_prompt(30);
  prompt[20] = kToyBreaks;
  Job scored = job_of(1, prompt, 2);
  scored.score_from = 5;
  Job behind = job_of(2, prompt, 2);
  behind.score_from = 22;
  for (const Job& job : {scored, behind}) {
    ASSERT_TRUE(engine->submit(job).ok());
  }
  EXPECT_EQ(listener.until_end(1).last.finish, FinishReason::error);
  EXPECT_EQ(listener.until_end(2).last.finish, FinishReason::length);
  EXPECT_EQ(listener[2].scores.size(), 8U);
}

}  // namespace
}  // namespace pome::engine
