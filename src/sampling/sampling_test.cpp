#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "sampling/params_check.h"
#include "sampling/sample_step.h"
#include "sampling/sequence_state.h"

namespace pome::sampling {
namespace {

using testing::ElementsAre;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

SequenceState state_of(Params params, std::vector<Token> prompt = {}, int32_t top_logprobs = -1,
                       std::vector<Token> end_tokens = {}) {
  const uint64_t seed = params.seed.value_or(1);
  return SequenceState(std::move(params), seed, prompt, std::move(end_tokens), top_logprobs);
}

mx::array logits_of(const std::vector<std::vector<float>>& rows) {
  std::vector<float> flat;
  for (const auto& row : rows) {
    flat.insert(flat.end(), row.begin(), row.end());
  }
  return mx::array(flat.data(),
                   {static_cast<int32_t>(rows.size()), static_cast<int32_t>(rows[0].size())},
                   mx::float32);
}

std::vector<SampledToken> run(const mx::array& logits,
                              const std::vector<const SequenceState*>& rows) {
  const SampleStep step(logits, rows);
  mx::eval(step.arrays());
  return step.read();
}

std::vector<float> adjusted(const std::vector<float>& logits, const SequenceState& state) {
  const std::vector<const SequenceState*> rows = {&state};
  mx::array out = mx::contiguous(adjust_logits(logits_of({logits}), rows));
  mx::eval(out);
  return {out.data<float>(), out.data<float>() + out.size()};
}

std::vector<float> random_logits(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> logits(count);
  for (float& logit : logits) {
    logit = normal(random);
  }
  return logits;
}

// ---- parameters -------------------------------------------------------------------------------

void expect_range(float Params::*field, std::vector<float> good, std::vector<float> bad,
                  const std::string& name) {
  for (const float value : good) {
    Params params;
    params.*field = value;
    EXPECT_TRUE(check_params(params).ok()) << name << " " << value;
  }
  bad.push_back(std::numeric_limits<float>::quiet_NaN());
  for (const float value : bad) {
    Params params;
    params.*field = value;
    const Status status = check_params(params);
    ASSERT_FALSE(status.ok()) << name << " " << value;
    EXPECT_EQ(status.error().field, name);
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
  }
}

TEST(CheckParams, HoldsEveryRangeAtItsEndsAndPastThem) {
  expect_range(&Params::temperature, {0.0f, 1.0f, 100.0f}, {-0.01f, 100.1f, kInfinity},
               "temperature");
  expect_range(&Params::top_p, {1e-6f, 1.0f}, {0.0f, 1.01f}, "top_p");
  expect_range(&Params::min_p, {0.0f, 1.0f}, {-0.01f, 1.01f}, "min_p");
  expect_range(&Params::frequency_penalty, {-2.0f, 2.0f}, {-2.01f, 2.01f}, "frequency_penalty");
  expect_range(&Params::presence_penalty, {-2.0f, 2.0f}, {-2.01f, 2.01f}, "presence_penalty");
  expect_range(&Params::repetition_penalty, {0.01f, 2.0f}, {0.0f, 2.01f}, "repetition_penalty");
}

TEST(CheckParams, HoldsIntegersAndBias) {
  Params params;
  for (const auto& [top_k, ok] : {std::pair{-1, true}, {1, true}, {0, false}, {-2, false}}) {
    params.top_k = top_k;
    EXPECT_EQ(check_params(params).ok(), ok) << top_k;
  }
  params = {};
  params.min_tokens = -1;
  EXPECT_EQ(check_params(params).error().field, "min_tokens");
  params = {};
  params.logit_bias = {{9, 100.0f}};
  EXPECT_TRUE(check_params(params, 10).ok());
  EXPECT_FALSE(check_params(params, 9).ok());
  params.logit_bias = {{9, 100.5f}};
  EXPECT_EQ(check_params(params, 10).error().field, "logit_bias");
  params.logit_bias.clear();
  for (int32_t token = 0; token < static_cast<int32_t>(kLogitBiasMax); ++token) {
    params.logit_bias[token] = 1.0f;
  }
  EXPECT_TRUE(check_params(params).ok());
  params.logit_bias[-1 + 5000] = 1.0f;
  EXPECT_FALSE(check_params(params).ok());
}

// ---- penalties --------------------------------------------------------------------------------

TEST(Penalties, RepetitionCountsPromptAndOutputOnceEach) {
  SequenceState state = state_of({.repetition_penalty = 2.0f}, {0, 0, 1});
  state.accept(2);
  state.accept(2);
  EXPECT_THAT(adjusted({4, -4, 6, 8}, state), ElementsAre(2, -8, 3, 8));
}

TEST(Penalties, FrequencyAndPresenceCountTheOutputOnly) {
  SequenceState state = state_of({.frequency_penalty = 0.5f, .presence_penalty = 1.0f}, {0});
  state.accept(2);
  state.accept(2);
  state.accept(3);
  EXPECT_THAT(adjusted({4, 4, 4, 4}, state), ElementsAre(4, 4, 2, 2.5f));
}

TEST(Penalties, BiasIsAddedToTheLogit) {
  const SequenceState state = state_of({.logit_bias = {{1, -100.0f}, {3, 2.5f}}});
  EXPECT_THAT(adjusted({4, 4, 4, 4}, state), ElementsAre(4, -96, 4, 6.5f));
}

TEST(Penalties, EndTokensAreImpossibleUntilMinTokens) {
  SequenceState state = state_of({.min_tokens = 2}, {}, -1, {1, 3});
  EXPECT_THAT(adjusted({4, 4, 4, 4}, state), ElementsAre(4, -kInfinity, 4, -kInfinity));
  state.accept(0);
  EXPECT_THAT(adjusted({4, 4, 4, 4}, state), ElementsAre(4, -kInfinity, 4, -kInfinity));
  state.accept(0);
  EXPECT_THAT(adjusted({4, 4, 4, 4}, state), ElementsAre(4, 4, 4, 4));
}

TEST(Penalties, TouchOnlyTheirOwnRow) {
  const SequenceState plain = state_of({});
  const SequenceState biased = state_of({.logit_bias = {{0, 1.0f}}});
  const std::vector<const SequenceState*> rows = {&plain, &biased, &plain};
  mx::array out = mx::contiguous(adjust_logits(logits_of({{1, 2}, {1, 2}, {1, 2}}), rows));
  mx::eval(out);
  EXPECT_THAT(std::vector<float>(out.data<float>(), out.data<float>() + 6),
              ElementsAre(1, 2, 2, 2, 1, 2));
}

// ---- drawing ----------------------------------------------------------------------------------

TEST(SampleStep, GreedyTakesTheLargestAndTheLowestIdAmongEquals) {
  const SequenceState greedy = state_of({.temperature = 0.0f});
  const auto sampled = run(logits_of({{1, 7, 3, 7}, {9, 1, 1, 1}}), {&greedy, &greedy});
  EXPECT_EQ(sampled[0].token, 1);
  EXPECT_EQ(sampled[1].token, 0);
}

TEST(SampleStep, TopKOneWithTopPLeavesTheLargest) {
  const SequenceState state = state_of({.top_p = 0.8f, .top_k = 1});
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> logits = random_logits(50, seed);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    EXPECT_EQ(run(logits_of({logits}), {&state})[0].token, best);
  }
}

TEST(SampleStep, FiltersNeverLetAnExcludedTokenThrough) {
  const std::vector<float> logits = {2.0f, 1.9f, 1.8f, -1.0f, -2.0f, -3.0f};
  std::set<Token> drawn;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const SequenceState top_k = state_of({.top_k = 2, .seed = seed});
    const SequenceState top_p = state_of({.top_p = 0.6f, .seed = seed});
    const SequenceState min_p = state_of({.min_p = 0.7f, .seed = seed});
    const auto sampled = run(logits_of({logits, logits, logits}), {&top_k, &top_p, &min_p});
    EXPECT_LT(sampled[0].token, 2);
    EXPECT_LT(sampled[1].token, 2);
    EXPECT_LT(sampled[2].token, 3);
    drawn.insert(sampled[2].token);
  }
  EXPECT_EQ(drawn.size(), 3U) << "every token that a filter leaves can be drawn";
}

TEST(SampleStep, FrequenciesFollowTheSoftmaxAtTheTemperature) {
  const std::vector<float> logits = {1.0f, 0.0f, -1.0f};
  const float temperature = 2.0f;
  constexpr size_t kDraws = 4000;
  std::vector<SequenceState> states;
  std::vector<const SequenceState*> rows;
  states.reserve(kDraws);
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    states.push_back(state_of({.temperature = temperature, .seed = seed}));
    rows.push_back(&states.back());
  }
  std::vector<int> counts(3, 0);
  for (const SampledToken& sampled : run(logits_of(std::vector(kDraws, logits)), rows)) {
    ++counts[static_cast<size_t>(sampled.token)];
  }
  float sum = 0.0f;
  for (const float logit : logits) {
    sum += std::exp(logit / temperature);
  }
  for (size_t t = 0; t < 3; ++t) {
    const float expected = std::exp(logits[t] / temperature) / sum;
    EXPECT_NEAR(static_cast<float>(counts[t]) / kDraws, expected, 0.03f) << t;
  }
}

TEST(SampleStep, ASeedDrawsTheSameAloneAndInACrowd) {
  const std::vector<float> logits = random_logits(1000, 5);
  const SequenceState mine = state_of({.seed = 0});
  const Token alone = run(logits_of({logits}), {&mine})[0].token;
  for (const size_t place : {size_t{0}, size_t{3}, size_t{7}}) {
    std::vector<std::vector<float>> crowd;
    std::vector<SequenceState> others;
    others.reserve(8);
    std::vector<const SequenceState*> rows;
    for (uint32_t r = 0; r < 8; ++r) {
      crowd.push_back(random_logits(1000, 100 + r));
      others.push_back(state_of({.temperature = 0.3f * static_cast<float>(r), .seed = r + 7U}));
      rows.push_back(&others.back());
    }
    crowd[place] = logits;
    rows[place] = &mine;
    EXPECT_EQ(run(logits_of(crowd), rows)[place].token, alone);
  }
}

TEST(SampleStep, SeedAndOutputIndexBothChangeTheDraw) {
  const std::vector<float> logits(1000, 0.0f);
  std::set<Token> drawn;
  SequenceState walking = state_of({.seed = 0});
  for (uint64_t i = 0; i < 20; ++i) {
    const SequenceState seeded = state_of({.seed = i + 1});
    const auto sampled = run(logits_of({logits, logits}), {&seeded, &walking});
    drawn.insert(sampled[0].token);
    drawn.insert(sampled[1].token);
    walking.accept(sampled[1].token);
  }
  EXPECT_GT(drawn.size(), 30U);
}

// ---- log probabilities ------------------------------------------------------------------------

TEST(Logprobs, AreTheLogSoftmaxOfTheRawLogits) {
  const std::vector<float> logits = random_logits(100, 3);
  double sum = 0.0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit));
  }
  Params params{.temperature = 0.5f, .top_k = 3, .seed = 4};
  params.logit_bias[static_cast<Token>(0)] = 50.0f;
  const SequenceState state = state_of(params, {}, 5);
  const SampledToken sampled = run(logits_of({logits}), {&state})[0];
  EXPECT_EQ(sampled.token, 0);
  EXPECT_NEAR(sampled.logprob, logits[0] - std::log(sum), 1e-4);
  ASSERT_EQ(sampled.top.size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    const auto token = static_cast<size_t>(sampled.top[i].token);
    EXPECT_NEAR(sampled.top[i].logprob, logits[token] - std::log(sum), 1e-4);
    EXPECT_TRUE(i == 0 || sampled.top[i - 1].logprob >= sampled.top[i].logprob);
  }
}

TEST(Logprobs, GoToTheRowsThatAskedAndInTheNumberTheyAskedFor) {
  const SequenceState silent = state_of({.temperature = 0.0f});
  const SequenceState chosen_only = state_of({.temperature = 0.0f}, {}, 0);
  const SequenceState two = state_of({.temperature = 0.0f}, {}, 2);
  const SequenceState twenty = state_of({.temperature = 0.0f}, {}, 20);
  const auto sampled = run(logits_of({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}}),
                           {&silent, &two, &chosen_only, &twenty});
  EXPECT_TRUE(sampled[0].top.empty());
  EXPECT_EQ(sampled[1].top.size(), 2U);
  EXPECT_TRUE(sampled[2].top.empty());
  EXPECT_EQ(sampled[3].top.size(), 3U) << "more than the vocabulary has";
  EXPECT_EQ(sampled[1].top[0].token, 2);
  EXPECT_FLOAT_EQ(sampled[2].logprob, sampled[1].top[0].logprob);
}

}  // namespace
}  // namespace pome::sampling
