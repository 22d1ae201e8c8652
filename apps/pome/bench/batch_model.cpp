#include "pome/bench/batch_model.h"

#ifdef POME_WITH_MLX
#include <chrono>
#include <optional>

#include "engine/compute_device.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "models/llm/load_model.h"
#include "models/sequences/greedy_batch.h"
#include "pome/model/find_model.h"
#include "pome/model/model_engine.h"
#include "pome/model/model_text.h"
#include "tensor/checkpoint/checkpoint.h"
#endif

namespace pome::apps {
#ifdef POME_WITH_MLX
namespace {

using Clock = std::chrono::steady_clock;

class MlxBatchModel final : public BatchModel {
 public:
  MlxBatchModel(std::unique_ptr<models::LanguageModel> model, server::ServedText text,
                const kvcache::KvFormat& format, int32_t chunk_tokens, telemetry::Trace& trace)
      : model_(std::move(model)),
        text_(std::move(text)),
        format_(format),
        chunk_tokens_(chunk_tokens),
        trace_(trace) {}

  int32_t vocab_tokens() const override { return model_->info().vocab_tokens; }
  int32_t context_tokens() const override { return model_->info().context_tokens; }

  Result<std::vector<std::vector<Token>>> encode(
      const std::vector<std::string>& texts) const override {
    std::vector<std::vector<Token>> out;
    for (const std::string& text : texts) {
      auto tokens = text_.tokenizer.encode(text, {.add_special = true});
      if (!tokens) {
        return tokens.error();
      }
      out.push_back(std::move(*tokens));
    }
    return out;
  }

  std::string decode_text(const std::vector<Token>& tokens) const override {
    return text_.tokenizer.decode(tokens, {.skip_special = false});
  }

  void begin(int32_t sequences, int32_t tokens_max) override {
    batch_.reset();
    next_.reset();
    logits_.reset();
    batch_.emplace(*model_, models::BatchOptions{.sequences = sequences,
                                                 .tokens_max = tokens_max + 1,
                                                 .chunk_tokens = chunk_tokens_,
                                                 .format = format_});
    sequences_ = sequences;
  }

  double prefill(const std::vector<std::vector<Token>>& prompts) override {
    mx::synchronize();
    const Clock::time_point start = Clock::now();
    telemetry::TraceSpan span(&trace_, "prefill");
    span.arg("sequences", sequences_);
    span.arg("tokens", static_cast<int64_t>(prompts.front().size()));
    logits_ = batch_->prefill(prompts);
    next_ = models::GreedyBatch::choose(*logits_);
    next_->eval();
    step_ = 0;
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  double decode(bool count_nodes) override {
    const Clock::time_point start = Clock::now();
    telemetry::TraceSpan span(&trace_, "decode");
    span.arg("step", step_++);
    span.arg("rows", sequences_);
    models::GraphNodes nodes;
    {
      const telemetry::TraceSpan launch(&trace_, "launch");
      next_ = batch_->decode(*next_, count_nodes ? &nodes : nullptr);
    }
    {
      const telemetry::TraceSpan wait(&trace_, "wait");
      next_->wait();
      mx::synchronize();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (count_nodes) {
      nodes_ = {nodes.total, std::move(nodes.by_name), model_->info().weight_bytes};
    }
    return seconds;
  }

  std::vector<std::vector<float>> logits() const override {
    const mx::array rows = mx::contiguous(mx::astype(*logits_, mx::float32));
    mx::eval(rows);
    const auto width = static_cast<size_t>(rows.shape(1));
    std::vector<std::vector<float>> out;
    for (size_t s = 0; s < static_cast<size_t>(sequences_); ++s) {
      const float* first = rows.data<float>() + s * width;
      out.emplace_back(first, first + width);
    }
    return out;
  }

  std::vector<Token> tokens() const override {
    const mx::array chosen = mx::contiguous(*next_);
    mx::eval(chosen);
    return {chosen.data<int32_t>(), chosen.data<int32_t>() + sequences_};
  }

  const BatchNodes& nodes() const override { return nodes_; }

 private:
  const std::unique_ptr<models::LanguageModel> model_;
  const server::ServedText text_;
  const kvcache::KvFormat format_;
  const int32_t chunk_tokens_;
  telemetry::Trace& trace_;
  std::optional<models::GreedyBatch> batch_;
  std::optional<mx::array> next_;
  std::optional<mx::array> logits_;
  int32_t sequences_ = 0;
  int64_t step_ = 0;
  BatchNodes nodes_;
};

}  // namespace

Result<std::unique_ptr<BatchModel>> open_batch_model(const Settings& settings,
                                                     const hub::Settings& hub,
                                                     const std::atomic<bool>& stop,
                                                     telemetry::Trace& trace) {
  if (settings.text("--model-path") == "echo") {
    return invalid("echo has no steps to time; name a model", "model-path");
  }
  const auto format = kv_format_of(settings);
  if (!format) {
    return format.error();
  }
  const auto local =
      find_or_pull(hub, {settings.text("--model-path"), settings.text("--revision")}, stop);
  if (!local) {
    return local.error();
  }
  auto checkpoint = tensor::Checkpoint::open(local->path);
  if (!checkpoint) {
    return checkpoint.error();
  }
  auto text = read_model_text(*checkpoint, settings);
  if (!text) {
    return text.error();
  }
  if (const auto threads = settings.integer("--threads")) {
    kernels::set_thread_count(static_cast<int>(*threads));
  }
  kernels::set_own_kernels_enabled(!settings.on("--disable-own-kernels"));
  auto model = models::load_model(*checkpoint);
  if (!model) {
    return model.error();
  }
  trace.name_thread("batch");
  const auto chunk = static_cast<int32_t>(settings.integer("--chunked-prefill-size").value_or(512));
  return std::unique_ptr<BatchModel>(
      std::make_unique<MlxBatchModel>(std::move(*model), std::move(*text), *format, chunk, trace));
}
#else
Result<std::unique_ptr<BatchModel>> open_batch_model(const Settings&, const hub::Settings&,
                                                     const std::atomic<bool>&, telemetry::Trace&) {
  return invalid("this pome was built without MLX and runs no model");
}
#endif

}  // namespace pome::apps
