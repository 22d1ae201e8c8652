#include "kernels/sample/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

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

// Rows are shared with the queued work, which may outlive the primitive.
class Sample : public CpuPrimitive {
 public:
  explicit Sample(std::vector<SampleRow> rows)
      : rows_(std::make_shared<const std::vector<SampleRow>>(std::move(rows))) {}
  const char* name() const override { return "Sample"; }

  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    SampleWork work;
    work.logits = rows<float>(in[0]);
    work.vocabulary = in[0].shape(1);
    work.tokens = allocate<int32_t>(out[0]);
    work.broken = allocate<int32_t>(out[1]);
    dispatch([work, rows = rows_]() mutable {
      work.rows = *rows;
      run_sample(work);
    });
  }

 private:
  std::shared_ptr<const std::vector<SampleRow>> rows_;
};

class LogprobsOp : public CpuPrimitive {
 public:
  explicit LogprobsOp(LogprobRows rows)
      : rows_(std::make_shared<const LogprobRows>(std::move(rows))) {}
  const char* name() const override { return "Logprobs"; }

  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    LogprobWork work;
    work.logits = rows<float>(in[0]);
    work.vocabulary = in[0].shape(1);
    work.tokens = rows<int32_t>(in[1]);
    work.values = allocate<float>(out[0]);
    work.ids = allocate<int32_t>(out[1]);
    dispatch([work, rows = rows_]() mutable {
      work.rows = rows.get();
      run_logprobs(work);
    });
  }

 private:
  std::shared_ptr<const LogprobRows> rows_;
};

void check_logits(const mx::array& logits) {
  if (logits.ndim() != 2 || logits.shape(1) < 1) {
    throw std::invalid_argument("[sample] expected logits [L, V] with V of at least 1");
  }
}

void check_place(int32_t place, const mx::array& logits) {
  if (place < 0 || place >= logits.shape(0)) {
    throw std::invalid_argument(
        fmt::format("[sample] expected a row of logits below {}, got {}", logits.shape(0), place));
  }
}

void check_edits(const std::vector<LogitEdit>& edits, int32_t vocabulary) {
  int32_t before = -1;
  for (const LogitEdit& edit : edits) {
    if (edit.token <= before || edit.token >= vocabulary) {
      throw std::invalid_argument(
          fmt::format("[sample] expected edits of ascending token ids below {}, got {} after {}",
                      vocabulary, edit.token, before));
    }
    before = edit.token;
  }
}

void check_rows(const LogprobRows& rows, const mx::array& logits, const mx::array& tokens) {
  for (const LogprobRow& row : rows.rows) {
    check_place(row.place, logits);
    const auto requested = static_cast<int32_t>(rows.requested.size());
    if (row.token < 0 || static_cast<size_t>(row.token) >= tokens.size() || row.top < 0 ||
        row.top > logits.shape(1) || row.requested_begin < 0 ||
        row.requested_begin > row.requested_end || row.requested_end > requested) {
      throw std::invalid_argument(
          "[logprobs] expected a token, at most V best tokens and a part of the requested ones");
    }
  }
  for (const int32_t token : rows.requested) {
    if (token < 0 || token >= logits.shape(1)) {
      throw std::invalid_argument(
          fmt::format("[logprobs] expected token ids below {}, got {}", logits.shape(1), token));
    }
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

Sampled sample(const mx::array& logits, std::vector<SampleRow> rows) {
  check_logits(logits);
  if (rows.empty()) {
    throw std::invalid_argument("[sample] expected at least one row");
  }
  for (const SampleRow& row : rows) {
    check_place(row.place, logits);
    check_edits(row.edits, logits.shape(1));
  }
  const mx::array wide = mx::astype(logits, mx::float32);
  if (!own_cpu_kernels()) {
    return reference::sample(wide, rows);
  }
  const mx::Shape shape{static_cast<int>(rows.size())};
  const auto outputs = mx::array::make_arrays({shape, shape}, {mx::int32, mx::int32},
                                              std::make_shared<Sample>(std::move(rows)), {wide});
  return {outputs[0], outputs[1]};
}

Logprobs logprobs(const mx::array& logits, const mx::array& tokens, LogprobRows rows) {
  check_logits(logits);
  if (rows.rows.empty()) {
    throw std::invalid_argument("[logprobs] expected at least one row");
  }
  check_rows(rows, logits, tokens);
  const mx::array wide = mx::astype(logits, mx::float32);
  if (!own_cpu_kernels()) {
    return reference::logprobs(wide, tokens, rows);
  }
  int32_t top = 0;
  auto values = static_cast<int32_t>(rows.rows.size());
  for (const LogprobRow& row : rows.rows) {
    top += row.top;
    values += row.top + row.requested_end - row.requested_begin;
  }
  const auto outputs = mx::array::make_arrays(
      {mx::Shape{values}, mx::Shape{std::max(top, 1)}}, {mx::float32, mx::int32},
      std::make_shared<LogprobsOp>(std::move(rows)), {wide, tokens});
  return {outputs[0], outputs[1]};
}

}  // namespace pome::kernels
