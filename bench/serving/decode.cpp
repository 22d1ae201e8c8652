#include <fmt/format.h>

#include <algorithm>

#include "client.h"
#include "scenarios.h"

namespace pome::bench {
namespace {

constexpr int32_t kPromptTokens = 128;
constexpr int32_t kOutputTokens = 128;

// Counted while all of them decode: from the last one's first token to the first one's last.
double tokens_per_s(Client& client, int32_t together, uint32_t variant) {
  std::vector<SequenceId> sequences;
  for (int32_t i = 0; i < together; ++i) {
    sequences.push_back(
        client.send(made_up_prompt(kPromptTokens, variant * 1024 + static_cast<uint32_t>(i),
                                   client.model().vocab_tokens),
                    kOutputTokens));
  }
  std::vector<Answer> answers;
  for (const SequenceId sequence : sequences) {
    answers.push_back(client.wait(sequence));
  }
  Clock::time_point begin = answers.front().tokens.front();
  Clock::time_point end = answers.front().tokens.back();
  for (const Answer& answer : answers) {
    begin = std::max(begin, answer.tokens.front());
    end = std::min(end, answer.tokens.back());
  }
  int64_t tokens = 0;
  for (const Answer& answer : answers) {
    tokens += std::count_if(answer.tokens.begin(), answer.tokens.end(),
                            [&](Clock::time_point at) { return at > begin && at <= end; });
  }
  return static_cast<double>(tokens) / seconds_between(begin, end);
}

}  // namespace

Result<Measurements> decode_together(const ScenarioOptions& options) {
  engine::EngineOptions engine;
  engine.model_path = options.model;
  engine.max_running_requests = options.sequences;
  engine.max_total_tokens = 2 * options.sequences * (kPromptTokens + kOutputTokens);
  auto client = start_client(engine);
  if (!client) {
    return client.error();
  }
  Measurement rate{.name = fmt::format("{} sequences together, {} + {} tokens", options.sequences,
                                       kPromptTokens, kOutputTokens),
                   .unit = "tokens/s"};
  for (int32_t i = 0; i <= options.repetitions; ++i) {
    const double value = tokens_per_s(**client, options.sequences, static_cast<uint32_t>(i));
    if (i > 0) {  // the first warms up
      rate.values.push_back(value);
    }
  }
  return Measurements{std::move(rate)};
}

}  // namespace pome::bench
