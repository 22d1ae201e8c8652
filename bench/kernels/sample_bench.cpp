#include <benchmark/benchmark.h>

#include <vector>

#include "made_up.h"
#include "sampling/sample_step.h"
#include "sampling/score_step.h"

namespace pome::bench {
namespace {

// Logits in the shape of a language model's: a few tokens far above a broad rest.
mx::array made_up_logits(int rows, int vocabulary) {
  const mx::array noise = mx::random::normal({rows, vocabulary}, mx::float32, 0.0f, 2.0f);
  const mx::array peaks = mx::exp(mx::random::normal({rows, vocabulary}, mx::float32, 0.0f, 0.7f));
  mx::array logits = mx::contiguous(noise + peaks);
  logits.eval();
  return logits;
}

struct Kind {
  const char* name;
  sampling::Params params;
  int32_t top_logprobs = -1;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kinds = {
      {"greedy", {.temperature = 0.0f}},
      {"drawn", {}},
      {"top_k", {.top_k = 40}},
      {"top_p", {.temperature = 0.8f, .top_p = 0.9f}},
      {"min_p", {.min_p = 0.05f}},
      {"penalties", {.temperature = 0.0f, .frequency_penalty = 0.5f, .repetition_penalty = 1.1f}},
      {"top_logprobs", {.temperature = 0.0f}, 20},
  };
  return kinds;
}

// One sampling step of `rows` rows that are all of one kind.
void sample(benchmark::State& state) {
  const Kind& kind = kinds()[static_cast<size_t>(state.range(0))];
  const auto rows = static_cast<int>(state.range(1));
  const auto vocabulary = static_cast<int>(state.range(2));
  const mx::array logits = made_up_logits(rows, vocabulary);
  std::vector<Token> prompt(1000);
  for (size_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = static_cast<Token>(i * 37 % static_cast<size_t>(vocabulary));
  }
  std::vector<sampling::SequenceState> states;
  std::vector<const sampling::SequenceState*> pointers;
  states.reserve(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) {
    states.emplace_back(kind.params, static_cast<uint64_t>(r), prompt, std::vector<Token>{},
                        kind.top_logprobs);
    pointers.push_back(&states.back());
  }
  for (auto _ : state) {
    const sampling::SampleStep step(logits, pointers);
    mx::eval(step.arrays());
    benchmark::DoNotOptimize(step.read());
  }
  state.SetLabel(kind.name);
  state.counters["us/row"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * rows * 1e-6,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(sample)
    ->ArgNames({"kind", "rows", "V"})
    ->ArgsProduct({{0, 1, 2, 3, 4, 5, 6}, {1, 16}, {49152, 151936}})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

// 128 positions of one prompt, with so many of the best each.
void score(benchmark::State& state) {
  const auto top = static_cast<int32_t>(state.range(0));
  const auto vocabulary = static_cast<int>(state.range(1));
  const mx::array logits = made_up_logits(128, vocabulary);
  const std::vector<Token> next(128, 7);
  const std::vector<sampling::ScoreSpan> spans = {{.place = 0, .next = next, .top = top}};
  for (auto _ : state) {
    const sampling::ScoreStep step(logits, spans);
    mx::eval(step.arrays());
    benchmark::DoNotOptimize(step.read());
  }
  state.counters["us/position"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 128 * 1e-6,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(score)
    ->ArgNames({"top", "V"})
    ->ArgsProduct({{0, 20}, {49152, 151936}})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pome::bench
