#include "toy_model.h"

#include <mlx/primitives.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "kvpool/kv_pool.h"

namespace pome::engine {
namespace {

constexpr int32_t kHeadDim = 8;
constexpr int32_t kModulus = 60;

// A node that throws when it runs.
class Thrower final : public mx::Primitive {
 public:
  explicit Thrower(mx::Stream stream) : mx::Primitive(stream) {}
  void eval_cpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("[toy] the node threw");
  }
  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("[toy] the node threw");
  }
  const char* name() const override { return "Thrower"; }
};

class ToyModel final : public models::LanguageModel {
 public:
  explicit ToyModel(int32_t context_tokens) {
    info_.architecture = "toy";
    info_.format = "none";
    info_.vocab_tokens = kToyVocabTokens;
    info_.context_tokens = context_tokens;
    info_.hidden_size = kHeadDim;
    info_.intermediate_size = kHeadDim;
    info_.eos_tokens = {kToyEos};
  }

  const models::LanguageModelInfo& info() const override { return info_; }

  kvcache::CacheSpec cache_spec(int32_t page_tokens,
                                const kvcache::KvFormat& format) const override {
    kvcache::CacheSpec spec;
    spec.page_tokens = page_tokens;
    spec.groups.resize(1);
    spec.groups[0].layers = {0};
    spec.groups[0].kv_heads = 1;
    spec.groups[0].head_dim = kHeadDim;
    spec.groups[0].bytes_per_page = int64_t{2} * page_tokens * format.head_bytes(kHeadDim);
    return spec;
  }

  models::StepOutput forward(const layers::Forward& step) const override {
    mx::array known = step.tokens;  // sampled ones may still be on their way
    known.eval();
    const auto* tokens = known.data<int32_t>();
    const auto has = [&](Token token) {
      return std::find(tokens, tokens + step.token_count, token) != tokens + step.token_count;
    };
    mx::array v = mx::broadcast_to(
        mx::reshape(mx::astype(step.tokens, mx::float32), {step.token_count, 1, 1}),
        {step.token_count, 1, kHeadDim});
    if (has(kToyThrowsLate)) {
      v = mx::array(v.shape(), v.dtype(),
                    std::make_shared<Thrower>(mx::default_stream(mx::default_device())), {v});
    }
    v = mx::contiguous(v);
    step.pool->append(0, v, v, step.groups[0].slots);
    if (has(kToyThrows)) {
      throw std::runtime_error("[toy] the model threw");
    }
    // With all scores equal, attention is the mean of the values: the mean of the tokens so far.
    const mx::array q = mx::zeros({step.token_count, 1, kHeadDim});
    const mx::array mean = step.pool->attention(0, q,
                                                {.page_table = step.groups[0].page_table,
                                                 .row_offsets = step.row_offsets,
                                                 .kv_lengths = step.kv_lengths,
                                                 .row_tokens = step.row_tokens},
                                                {});
    const mx::array first = mx::reshape(mx::slice(mean, {0, 0, 0}, {step.token_count, 1, 1}), {-1});
    const mx::array count = mx::astype(step.positions + mx::array(1), mx::float32);
    const mx::array sum = mx::astype(mx::round(first * count), mx::int32);
    const mx::array next = mx::remainder(sum + mx::array(1), mx::array(kModulus));
    const mx::array out = mx::reshape(mx::take(next, step.output_tokens), {-1, 1});
    const mx::array logits =
        mx::astype(mx::equal(mx::reshape(mx::arange(kToyVocabTokens), {1, -1}), out), mx::float32) *
        mx::array(20.0f);
    const mx::array broken = mx::reshape(
        mx::equal(mx::take(step.tokens, step.output_tokens), mx::array(kToyBreaks)), {-1, 1});
    const mx::array said =
        mx::where(broken, mx::array(std::numeric_limits<float>::quiet_NaN()), logits);
    return {.logits = said, .hidden = said};
  }

 private:
  models::LanguageModelInfo info_;
};

}  // namespace

ModelLoader toy_loader(int32_t context_tokens) {
  return [context_tokens]() -> Result<std::unique_ptr<models::LanguageModel>> {
    return std::unique_ptr<models::LanguageModel>(std::make_unique<ToyModel>(context_tokens));
  };
}

std::vector<Token> toy_answer(std::vector<Token> sequence, int32_t count, bool stop_at_eos) {
  std::vector<Token> answer;
  while (static_cast<int32_t>(answer.size()) < count) {
    int64_t sum = 1;
    for (const Token token : sequence) {
      sum += token;
    }
    const auto next = static_cast<Token>(sum % kModulus);
    sequence.push_back(next);
    answer.push_back(next);
    if (stop_at_eos && next == kToyEos) {
      break;
    }
  }
  return answer;
}

std::vector<Token> toy_prompt(int32_t prompt_tokens, int32_t tokens, int32_t variant) {
  for (int32_t last = 0;; ++last) {
    std::vector<Token> prompt;
    for (int32_t i = 0; i + 1 < prompt_tokens; ++i) {
      prompt.push_back((i * 7 + variant * 13) % kModulus);
    }
    prompt.push_back((last + variant) % kModulus);
    const std::vector<Token> answer = toy_answer(prompt, tokens);
    if (static_cast<int32_t>(answer.size()) == tokens && answer.back() != kToyEos) {
      return prompt;
    }
    CHECK(last < kModulus, "no such prompt");
  }
}

}  // namespace pome::engine
