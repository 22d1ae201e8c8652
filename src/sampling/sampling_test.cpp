#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "sampling/params_check.h"
#include "sampling/sample_step.h"
#include "sampling/score_step.h"
#include "sampling/sequence_state.h"

namespace pome::sampling {
namespace {

using testing::ElementsAre;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

SequenceState state_of(Params params, std::vector<Token> prompt = {}, int32_t top_logprobs = -1,
                       std::vector<Token> end_tokens = {}) {
  const uint64_t seed = params.seed.value_or(1);
  return SequenceState(std::move(params), seed, prompt, end_tokens, top_logprobs);
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

// The logits that the state draws from.
std::vector<float> edited(std::vector<float> logits, const SequenceState& state) {
  for (const kernels::LogitEdit& edit : state.edits(static_cast<int32_t>(logits.size()))) {
    float& x = logits[static_cast<size_t>(edit.token)];
    x = (x > 0.0f ? x / edit.repetition : x * edit.repetition) + edit.add;
  }
  return logits;
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
  EXPECT_THAT(edited({4, -4, 6, 8}, state), ElementsAre(2, -8, 3, 8));
}

TEST(Penalties, FrequencyAndPresenceCountTheOutputOnly) {
  SequenceState state = state_of({.frequency_penalty = 0.5f, .presence_penalty = 1.0f}, {0});
  state.accept(2);
  state.accept(2);
  state.accept(3);
  EXPECT_THAT(edited({4, 4, 4, 4}, state), ElementsAre(4, 4, 2, 2.5f));
}

TEST(Penalties, BiasIsAddedToTheLogit) {
  const SequenceState state = state_of({.logit_bias = {{1, -100.0f}, {3, 2.5f}}});
  EXPECT_THAT(edited({4, 4, 4, 4}, state), ElementsAre(4, -96, 4, 6.5f));
}

TEST(Penalties, EndTokensAreImpossibleUntilMinTokens) {
  SequenceState state = state_of({.min_tokens = 2}, {}, -1, {1, 3});
  EXPECT_THAT(edited({4, 4, 4, 4}, state), ElementsAre(4, -kInfinity, 4, -kInfinity));
  state.accept(0);
  EXPECT_THAT(edited({4, 4, 4, 4}, state), ElementsAre(4, -kInfinity, 4, -kInfinity));
  state.accept(0);
  EXPECT_THAT(edited({4, 4, 4, 4}, state), ElementsAre(4, 4, 4, 4));
}

TEST(Penalties, EndTokensComeBackWithTheirPenaltiesAtMinTokens) {
  SequenceState state = state_of(
      {.repetition_penalty = 2.0f, .logit_bias = {{1, 1.0f}}, .min_tokens = 1}, {1}, -1, {1});
  EXPECT_THAT(edited({4, 4}, state), ElementsAre(4, -kInfinity));
  state.accept(0);
  EXPECT_THAT(edited({4, 4}, state), ElementsAre(2, 3));
}

TEST(Penalties, NameOnlyTheTokensThatTheyChange) {
  SequenceState plain = state_of({.temperature = 0.5f, .min_tokens = 1}, {0, 1}, -1, {3});
  EXPECT_EQ(plain.edits(4).size(), 1U);
  plain.accept(2);
  EXPECT_TRUE(plain.edits(4).empty());
  const SequenceState biased = state_of({.logit_bias = {{1, 0.0f}, {2, 1.0f}, {9, 1.0f}}});
  EXPECT_EQ(biased.edits(4).size(), 1U) << "a bias of nothing, and a token that does not exist";
}

TEST(Penalties, TouchOnlyTheirOwnRow) {
  const SequenceState plain = state_of({.temperature = 0.0f});
  const SequenceState biased = state_of({.temperature = 0.0f, .logit_bias = {{0, 2.0f}}});
  const auto sampled = run(logits_of({{1, 2}, {1, 2}, {1, 2}}), {&plain, &biased, &plain});
  EXPECT_EQ(sampled[0].token, 1);
  EXPECT_EQ(sampled[1].token, 0);
  EXPECT_EQ(sampled[2].token, 1);
}

// What the fields say, read from the whole history each time.
std::vector<float> edited_by_history(std::vector<float> logits, const Params& params,
                                     const std::vector<Token>& prompt,
                                     const std::vector<Token>& output,
                                     const std::vector<Token>& end_tokens) {
  for (size_t t = 0; t < logits.size(); ++t) {
    const auto token = static_cast<Token>(t);
    const auto count = std::count(output.begin(), output.end(), token);
    const bool seen = count > 0 || std::count(prompt.begin(), prompt.end(), token) > 0;
    float& x = logits[t];
    if (seen && params.repetition_penalty != 1.0f) {
      x = x > 0.0f ? x / params.repetition_penalty : x * params.repetition_penalty;
    }
    float add = 0.0f;
    if (count > 0) {
      add = -params.presence_penalty - params.frequency_penalty * static_cast<float>(count);
    }
    const auto bias = params.logit_bias.find(token);
    x += add + (bias == params.logit_bias.end() ? 0.0f : bias->second);
    if (static_cast<int32_t>(output.size()) < params.min_tokens &&
        std::count(end_tokens.begin(), end_tokens.end(), token) > 0) {
      x = -kInfinity;
    }
  }
  return logits;
}

TEST(Penalties, AreThoseOfTheHistoryBitForBitAfterEveryToken) {
  const std::vector<Params> kinds{
      {.frequency_penalty = 0.7f},
      {.presence_penalty = -1.3f},
      {.repetition_penalty = 1.17f},
      {.frequency_penalty = -0.3f, .presence_penalty = 0.9f, .repetition_penalty = 0.8f},
      {.logit_bias = {{3, -100.0f}, {7, 0.33f}, {49, 5.0f}}, .min_tokens = 9},
      {.frequency_penalty = 0.1f,
       .presence_penalty = 0.2f,
       .repetition_penalty = 1.3f,
       .logit_bias = {{3, 1.1f}, {4, -2.0f}},
       .min_tokens = 20}};
  std::mt19937 random(4);
  for (const Params& params : kinds) {
    std::vector<Token> prompt;
    for (int i = 0; i < 30; ++i) {
      prompt.push_back(static_cast<Token>(random() % 50));
    }
    const std::vector<Token> end_tokens = {2, 3, 2};
    SequenceState state = state_of(params, prompt, -1, end_tokens);
    std::vector<Token> output;
    for (int step = 0; step < 40; ++step) {
      const std::vector<float> logits = random_logits(50, static_cast<uint32_t>(step));
      EXPECT_EQ(edited(logits, state),
                edited_by_history(logits, params, prompt, output, end_tokens));
      output.push_back(static_cast<Token>(random() % 50));
      state.accept(output.back());
    }
  }
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

TEST(Logprobs, OfRequestedTokensComeInTheirOrder) {
  Params params{.temperature = 0.0f};
  const std::vector<Token> none;
  const SequenceState asking(params, 1, none, none, {.top = 1, .requested = {2, 0, 2}});
  const SequenceState other(params, 1, none, none, {.top = 0, .requested = {1}});
  const auto sampled = run(logits_of({{0, 1, 2}, {0, 1, 2}}), {&asking, &other});
  ASSERT_EQ(sampled[0].requested.size(), 3U);
  EXPECT_EQ(sampled[0].requested[0].token, 2);
  EXPECT_EQ(sampled[0].requested[0].logprob, sampled[0].logprob);
  EXPECT_EQ(sampled[0].requested[2].logprob, sampled[0].logprob);
  EXPECT_FLOAT_EQ(sampled[0].requested[1].logprob, sampled[0].logprob - 2.0f);
  ASSERT_EQ(sampled[1].requested.size(), 1U);
  EXPECT_FLOAT_EQ(sampled[1].requested[0].logprob, sampled[0].logprob - 1.0f);
}

// ---- rows of a step ---------------------------------------------------------------------------

TEST(SampleStep, StatesDrawFromTheRowsThatTheyAreGiven) {
  const SequenceState greedy = state_of({.temperature = 0.0f}, {}, 0);
  const std::vector<const SequenceState*> states = {&greedy, &greedy};
  const std::vector<int32_t> places = {3, 1};
  const SampleStep step(logits_of({{9, 0, 0}, {0, 9, 0}, {9, 0, 0}, {0, 0, 5}}), states, places);
  mx::eval(step.arrays());
  const auto sampled = step.read();
  ASSERT_EQ(sampled.size(), 2U);
  EXPECT_EQ(sampled[0].token, 2);
  EXPECT_EQ(sampled[1].token, 1);
  EXPECT_LT(sampled[0].logprob, sampled[1].logprob);
}

TEST(SampleStep, ANaNBreaksItsRowAndNoOther) {
  const SequenceState plain = state_of({.temperature = 0.0f});
  const SequenceState asking = state_of({.temperature = 0.0f}, {}, 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto sampled = run(logits_of({{1, nan, 0}, {1, 2, 0}, {nan, nan, nan}, {1, 2, 0}}),
                           {&plain, &plain, &asking, &asking});
  EXPECT_TRUE(sampled[0].broken);
  EXPECT_FALSE(sampled[1].broken);
  EXPECT_TRUE(sampled[2].broken);
  EXPECT_FALSE(sampled[3].broken);
  EXPECT_EQ(sampled[1].token, 1);
  EXPECT_EQ(sampled[3].top.at(0).token, 1);
}

// Whole generations of sequences of every kind, each with its own history. In each step they are
// shuffled and dealt into crowds of a size; what each said comes back.
class Generations {
 public:
  static constexpr size_t kSequences = 18;
  static constexpr int kSteps = 12;

  static std::vector<std::vector<SampledToken>> play(size_t crowd, uint32_t seed) {
    Generations all;
    std::mt19937 random(seed);
    std::vector<size_t> order(kSequences);
    std::iota(order.begin(), order.end(), size_t{0});
    for (int step = 0; step < kSteps; ++step) {
      std::shuffle(order.begin(), order.end(), random);
      for (size_t first = 0; first < kSequences; first += crowd) {
        const auto begin = order.begin() + static_cast<int64_t>(first);
        const auto end = order.begin() + static_cast<int64_t>(std::min(first + crowd, kSequences));
        all.step({begin, end}, step);
      }
    }
    return all.said_;
  }

 private:
  Generations() {
    const std::vector<Params> kinds{
        {.temperature = 0.0f},
        {},
        {.temperature = 0.7f, .top_k = 30, .repetition_penalty = 1.2f},
        {.top_p = 0.9f, .frequency_penalty = 0.5f, .presence_penalty = 0.5f},
        {.temperature = 0.0f, .frequency_penalty = 2.0f, .min_tokens = 5},
        {.min_p = 0.1f, .logit_bias = {{17, 8.0f}, {8999, 8.0f}}}};
    for (size_t s = 0; s < kSequences; ++s) {
      Params params = kinds[s % kinds.size()];
      params.seed = s * 7;
      states_.push_back(state_of(params, {1, 2, 17}, s % 2 == 0 ? 3 : -1, {5, 6}));
    }
  }

  void step(const std::vector<size_t>& crowd, int step) {
    std::vector<std::vector<float>> logits;
    std::vector<const SequenceState*> rows;
    for (const size_t s : crowd) {
      logits.push_back(random_logits(9000, static_cast<uint32_t>(s) * 1000 + step));
      rows.push_back(&states_[s]);
    }
    const auto sampled = run(logits_of(logits), rows);
    for (size_t i = 0; i < crowd.size(); ++i) {
      states_[crowd[i]].accept(sampled[i].token);
      said_[crowd[i]].push_back(sampled[i]);
    }
  }

  std::vector<SequenceState> states_;
  std::vector<std::vector<SampledToken>> said_ = std::vector<std::vector<SampledToken>>(kSequences);
};

void expect_same(const SampledToken& a, const SampledToken& b) {
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.logprob, b.logprob);
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(a.top[i].token, b.top[i].token);
    EXPECT_EQ(a.top[i].logprob, b.top[i].logprob);
  }
}

TEST(SampleStep, ASequenceSaysTheSameInEveryCrowdBitForBit) {
  const auto alone = Generations::play(1, 0);
  for (const size_t crowd : {size_t{2}, size_t{5}, size_t{8}, Generations::kSequences}) {
    const auto together = Generations::play(crowd, static_cast<uint32_t>(crowd));
    for (size_t s = 0; s < Generations::kSequences; ++s) {
      ASSERT_EQ(alone[s].size(), size_t{Generations::kSteps});
      for (size_t t = 0; t < alone[s].size(); ++t) {
        SCOPED_TRACE(testing::Message() << "crowd " << crowd << ", sequence " << s << ", " << t);
        expect_same(alone[s][t], together[s][t]);
      }
    }
  }
}

// ---- scores -----------------------------------------------------------------------------------

TEST(ScoreStep, GivesTheTokenAfterEachPositionItsLogSoftmax) {
  const std::vector<std::vector<float>> rows = {random_logits(500, 1), random_logits(500, 2),
                                                random_logits(500, 3), random_logits(500, 4)};
  const std::vector<Token> first = {7, 499};
  const std::vector<Token> second = {0};
  const std::vector<Token> requested = {3, 4};
  const std::vector<ScoreSpan> spans = {
      {.place = 2, .next = first, .top = 4, .requested = requested}, {.place = 0, .next = second}};
  const ScoreStep step(logits_of(rows), spans);
  mx::eval(step.arrays());
  const auto scores = step.read();
  const auto expected = [&](size_t row, Token token) {
    double sum = 0.0;
    for (const float x : rows[row]) {
      sum += std::exp(double{x});
    }
    return double{rows[row][static_cast<size_t>(token)]} - std::log(sum);
  };
  ASSERT_EQ(scores.size(), 2U);
  ASSERT_EQ(scores[0].size(), 2U);
  ASSERT_EQ(scores[1].size(), 1U);
  for (size_t i = 0; i < 2; ++i) {
    const SampledToken& score = scores[0][i];
    EXPECT_EQ(score.token, first[i]);
    EXPECT_NEAR(score.logprob, expected(2 + i, first[i]), 1e-5);
    ASSERT_EQ(score.top.size(), 4U);
    EXPECT_NEAR(score.top[3].logprob, expected(2 + i, score.top[3].token), 1e-5);
    ASSERT_EQ(score.requested.size(), 2U);
    EXPECT_NEAR(score.requested[1].logprob, expected(2 + i, 4), 1e-5);
  }
  EXPECT_NEAR(scores[1][0].logprob, expected(0, 0), 1e-5);
  EXPECT_TRUE(scores[1][0].top.empty());
}

TEST(ScoreStep, HasTheBitsOfASampledTokensLogprobs) {
  const std::vector<std::vector<float>> rows = {random_logits(20000, 5), random_logits(20000, 6)};
  const SequenceState greedy = state_of({.temperature = 0.0f}, {}, 5);
  const auto sampled = run(logits_of(rows), {&greedy, &greedy});
  const std::vector<Token> next = {sampled[0].token, sampled[1].token};
  const std::vector<ScoreSpan> spans = {{.place = 0, .next = next, .top = 5}};
  const ScoreStep step(logits_of(rows), spans);
  mx::eval(step.arrays());
  const auto scores = step.read();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(scores[0][i].logprob, sampled[i].logprob);
    EXPECT_EQ(scores[0][i].top[0].logprob, sampled[i].logprob) << "the best is the chosen";
    EXPECT_EQ(scores[0][i].top[4].logprob, sampled[i].top[4].logprob);
  }
}

TEST(ScoreStep, MarksABrokenPositionAndNoOther) {
  const std::vector<Token> next = {0, 0};
  const std::vector<ScoreSpan> spans = {{.place = 0, .next = next, .top = 1}};
  const ScoreStep step(logits_of({{1, std::numeric_limits<float>::quiet_NaN()}, {1, 2}}), spans);
  mx::eval(step.arrays());
  const auto scores = step.read();
  EXPECT_TRUE(scores[0][0].broken);
  EXPECT_FALSE(scores[0][1].broken);
}

TEST(ScoreStep, BoundsTheLogitsOfAStep) {
  for (const int32_t vocabulary : {1, 49152, 151936, 262144, 20'000'000}) {
    const int64_t bytes = int64_t{4} * vocabulary * score_tokens_max(vocabulary);
    EXPECT_GE(score_tokens_max(vocabulary), 1);
    EXPECT_TRUE(bytes <= kScoreLogitBytesMax || score_tokens_max(vocabulary) == 1) << vocabulary;
  }
  EXPECT_EQ(score_tokens_max(262144), 64);
}

}  // namespace
}  // namespace pome::sampling
