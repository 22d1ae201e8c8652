#include "kernels/sample/sample.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cpu_primitive.h"
#include "kernels/sample/sample_cpu.h"

namespace pome::kernels {
namespace {

uint32_t mix(uint32_t h) {
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

class Sample : public CpuPrimitive {
 public:
  const char* name() const override { return "Sample"; }

  // Inputs: logits, then SampleRows' members in order.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    SampleWork work;
    work.logits = rows<float>(in[0]);
    work.temperature = rows<float>(in[1]);
    work.top_k = rows<int32_t>(in[2]);
    work.top_p = rows<float>(in[3]);
    work.min_p = rows<float>(in[4]);
    work.seed = rows<uint32_t>(in[5]);
    work.output_index = rows<int32_t>(in[6]);
    work.rows = in[0].shape(0);
    work.vocabulary = in[0].shape(1);
    work.tokens = allocate<int32_t>(out[0]);
    dispatch([work] { run_sample(work); });
  }
};

class RowLogsumexp : public CpuPrimitive {
 public:
  const char* name() const override { return "RowLogsumexp"; }

  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    const auto* logits = rows<float>(in[0]);
    auto* to = allocate<float>(out[0]);
    dispatch([=, count = in[0].shape(0), vocabulary = in[0].shape(1)] {
      run_row_logsumexp(logits, count, vocabulary, to);
    });
  }
};

class TopLogprobsOp : public CpuPrimitive {
 public:
  const char* name() const override { return "TopLogprobs"; }

  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    const auto* logits = rows<float>(in[0]);
    auto* values = allocate<float>(out[0]);
    auto* ids = allocate<int32_t>(out[1]);
    dispatch([=, count = in[0].shape(0), vocabulary = in[0].shape(1), k = out[0].shape(1)] {
      run_top_logprobs(logits, count, vocabulary, k, values, ids);
    });
  }
};

void check_logits(const mx::array& logits) {
  if (logits.ndim() != 2 || logits.shape(1) < 1) {
    throw std::invalid_argument("[sample] expected logits [O, V] with V of at least 1");
  }
}

}  // namespace

uint32_t noise_bits(uint64_t seed, int32_t output_index, int32_t token) {
  const auto low = static_cast<uint32_t>(seed);
  const auto high = static_cast<uint32_t>(seed >> 32);
  const uint32_t a =
      mix(low ^ mix(static_cast<uint32_t>(output_index) * 0x9E3779B1u + 0x85EBCA77u));
  const uint32_t b = mix(high + a);
  return mix(mix((static_cast<uint32_t>(token) * 0x9E3779B1u) ^ a) + b);
}

mx::array sample(const mx::array& logits, const SampleRows& rows) {
  check_logits(logits);
  const auto count = static_cast<size_t>(logits.shape(0));
  if (rows.temperature.size() != count || rows.top_k.size() != count ||
      rows.top_p.size() != count || rows.min_p.size() != count || rows.seed.size() != 2 * count ||
      rows.output_index.size() != count) {
    throw std::invalid_argument(
        fmt::format("[sample] expected parameters for {} rows and two seed words each", count));
  }
  if (!own_cpu_kernels() || logits.dtype() != mx::float32) {
    return reference::sample(mx::astype(logits, mx::float32), rows);
  }
  return mx::array(
      {logits.shape(0)}, mx::int32, std::make_shared<Sample>(),
      {logits, rows.temperature, rows.top_k, rows.top_p, rows.min_p, rows.seed, rows.output_index});
}

mx::array row_logsumexp(const mx::array& logits) {
  check_logits(logits);
  if (!own_cpu_kernels() || logits.dtype() != mx::float32) {
    return reference::row_logsumexp(mx::astype(logits, mx::float32));
  }
  return mx::array({logits.shape(0)}, mx::float32, std::make_shared<RowLogsumexp>(), {logits});
}

TopLogprobs logprobs_top_k(const mx::array& logits, int32_t k) {
  check_logits(logits);
  if (k < 1 || k > logits.shape(1)) {
    throw std::invalid_argument(
        fmt::format("[logprobs_top_k] expected k from 1 to {}, got {}", logits.shape(1), k));
  }
  if (!own_cpu_kernels() || logits.dtype() != mx::float32) {
    return reference::logprobs_top_k(mx::astype(logits, mx::float32), k);
  }
  const mx::Shape shape{logits.shape(0), k};
  const auto outputs = mx::array::make_arrays({shape, shape}, {mx::float32, mx::int32},
                                              std::make_shared<TopLogprobsOp>(), {logits});
  return {outputs[0], outputs[1]};
}

mx::array logprobs_at(const mx::array& logits, const mx::array& tokens) {
  check_logits(logits);
  return mx::squeeze(mx::take_along_axis(logits, mx::expand_dims(tokens, 1), 1), 1) -
         row_logsumexp(logits);
}

}  // namespace pome::kernels
