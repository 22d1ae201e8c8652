#include <fmt/format.h>

#include "base/check.h"
#include "client.h"
#include "scenarios.h"

namespace pome::bench {
namespace {

constexpr int32_t kPrefixTokens = 2000;
constexpr int32_t kMessageTokens = 20;  // new behind the prefix
constexpr int32_t kOutputTokens = 33;
constexpr double kStepsMax = 3.0;

std::vector<double> gaps_s(const Answer& answer) {
  std::vector<double> gaps;
  for (size_t i = 1; i < answer.tokens.size(); ++i) {
    gaps.push_back(seconds_between(answer.tokens[i - 1], answer.tokens[i]));
  }
  return gaps;
}

}  // namespace

Result<Measurements> warm_prefix(const ScenarioOptions& options) {
  engine::EngineOptions engine;
  engine.model_path = options.model;
  engine.max_total_tokens = 16384;
  auto started = start_client(engine);
  if (!started) {
    return started.error();
  }
  Client& client = **started;
  const int32_t vocab = client.model().vocab_tokens;
  const std::vector<Token> prefix = made_up_prompt(kPrefixTokens, options.seed, vocab);
  const Answer cold = client.wait(client.send(prefix, 1));
  Measurement in_steps{.name = fmt::format("first token behind {} cached and {} new tokens",
                                           kPrefixTokens, kMessageTokens),
                       .unit = "decode steps",
                       .bar = Bar{.value = kStepsMax}};
  Measurement again{
      .name = fmt::format("first token of the same {}-token prompt again", kPrefixTokens),
      .unit = "decode steps",
      .bar = Bar{.value = kStepsMax}};
  Measurement step{.name = fmt::format("decode step behind {} tokens", kPrefixTokens),
                   .unit = "ms"};
  for (int32_t i = 0; i <= options.repetitions; ++i) {
    std::vector<Token> prompt = prefix;
    const std::vector<Token> message =
        made_up_prompt(kMessageTokens, options.seed + 1000u + static_cast<uint32_t>(i), vocab);
    prompt.insert(prompt.end(), message.begin(), message.end());
    const Answer warm = client.wait(client.send(prompt, kOutputTokens));
    const Answer same = client.wait(client.send(prefix, kOutputTokens));
    CHECK(warm.cached_tokens > kPrefixTokens - engine.page_size, "the prefix was not found");
    const double step_s = quantile(gaps_s(warm), 0.5);
    if (i > 0) {  // the first warms up
      step.values.push_back(1e3 * step_s);
      in_steps.values.push_back(warm.first_token_s() / step_s);
      again.values.push_back(same.first_token_s() / quantile(gaps_s(same), 0.5));
    }
  }
  Measurement cold_steps{
      .name = fmt::format("first token of a cold {}-token prompt", kPrefixTokens),
      .unit = "decode steps",
      .values = {cold.first_token_s() / (1e-3 * step.median())}};
  return Measurements{std::move(in_steps), std::move(again), std::move(cold_steps),
                      std::move(step)};
}

}  // namespace pome::bench
