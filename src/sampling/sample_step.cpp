#include "sampling/sample_step.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/sample/sample.h"

namespace pome::sampling {
namespace {

using Rows = std::span<const SequenceState* const>;

template <typename T>
mx::array column(Rows rows, mx::Dtype dtype, T (*value_of)(const SequenceState&)) {
  std::vector<T> values;
  values.reserve(rows.size());
  for (const SequenceState* row : rows) {
    values.push_back(value_of(*row));
  }
  return mx::array(values.data(), {static_cast<int32_t>(values.size())}, dtype);
}

mx::array seeds_of(Rows rows) {
  std::vector<uint32_t> halves;
  for (const SequenceState* row : rows) {
    halves.push_back(static_cast<uint32_t>(row->seed()));
    halves.push_back(static_cast<uint32_t>(row->seed() >> 32));
  }
  return mx::array(halves.data(), {static_cast<int32_t>(rows.size()), 2}, mx::uint32);
}

kernels::SampleRows sample_rows_of(Rows rows) {
  return {
      .temperature = column<float>(rows, mx::float32,
                                   [](const SequenceState& s) { return s.params().temperature; }),
      .top_k =
          column<int32_t>(rows, mx::int32, [](const SequenceState& s) { return s.params().top_k; }),
      .top_p =
          column<float>(rows, mx::float32, [](const SequenceState& s) { return s.params().top_p; }),
      .min_p =
          column<float>(rows, mx::float32, [](const SequenceState& s) { return s.params().min_p; }),
      .seed = seeds_of(rows),
      .output_index =
          column<int32_t>(rows, mx::int32, [](const SequenceState& s) { return s.output_index(); }),
  };
}

mx::array vector_array(const std::vector<int32_t>& values) {
  return mx::array(values.data(), {static_cast<int32_t>(values.size())}, mx::int32);
}
mx::array vector_array(const std::vector<float>& values) {
  return mx::array(values.data(), {static_cast<int32_t>(values.size())}, mx::float32);
}

}  // namespace

mx::array adjust_logits(const mx::array& logits, Rows rows) {
  const int32_t vocab = logits.shape(1);
  std::vector<int32_t> places;  // row · V + token
  std::vector<float> repetition;
  std::vector<float> add;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const LogitAdjustment& adjustment : rows[r]->adjustments()) {
      if (adjustment.token < vocab) {
        places.push_back(static_cast<int32_t>(r) * vocab + adjustment.token);
        repetition.push_back(adjustment.repetition);
        add.push_back(adjustment.add);
      }
    }
  }
  if (places.empty()) {
    return logits;
  }
  const mx::array flat = mx::reshape(logits, {-1});
  const mx::array index = vector_array(places);
  const mx::array factor = vector_array(repetition);
  const mx::array before = mx::take(flat, index);
  const mx::array scaled =
      mx::where(mx::greater(before, mx::array(0.0f)), before / factor, before * factor);
  const mx::array after = scaled + vector_array(add);
  return mx::reshape(mx::put_along_axis(flat, index, after, 0), logits.shape());
}

SampleStep::SampleStep(const mx::array& logits, Rows rows)
    : tokens_(kernels::sample(adjust_logits(logits, rows), sample_rows_of(rows))) {
  CHECK(logits.ndim() == 2 && logits.shape(0) == static_cast<int32_t>(rows.size()),
        "one row of logits for each state");
  std::vector<int32_t> asking;
  std::vector<int32_t> ranks;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r]->top_logprobs() >= 0) {
      asking.push_back(static_cast<int32_t>(r));
      ranks.push_back(std::min(rows[r]->top_logprobs(), logits.shape(1)));
    }
  }
  if (asking.empty()) {
    return;
  }
  const bool all = asking.size() == rows.size();
  const mx::array index = vector_array(asking);
  const mx::array raw = all ? logits : mx::take(logits, index, 0);
  const mx::array chosen = all ? tokens_ : mx::take(tokens_, index);
  logprobs_.emplace(RowLogprobs{.rows = std::move(asking),
                                .ranks = std::move(ranks),
                                .chosen = kernels::logprobs_at(raw, chosen),
                                .top_values = {},
                                .top_ids = {}});
  const int32_t k = *std::max_element(logprobs_->ranks.begin(), logprobs_->ranks.end());
  if (k > 0) {
    kernels::TopLogprobs top = kernels::logprobs_top_k(raw, k);
    logprobs_->top_values = std::move(top.values);
    logprobs_->top_ids = std::move(top.ids);
  }
}

std::vector<mx::array> SampleStep::arrays() const {
  std::vector<mx::array> arrays = {tokens_};
  if (logprobs_) {
    arrays.push_back(logprobs_->chosen);
    if (logprobs_->top_values) {
      arrays.push_back(*logprobs_->top_values);
      arrays.push_back(*logprobs_->top_ids);
    }
  }
  return arrays;
}

std::vector<SampledToken> SampleStep::read() const {
  std::vector<SampledToken> sampled;
  const auto* tokens = tokens_.data<int32_t>();
  for (int32_t r = 0; r < tokens_.shape(0); ++r) {
    sampled.push_back({.token = tokens[r]});
  }
  if (!logprobs_) {
    return sampled;
  }
  const auto* chosen = logprobs_->chosen.data<float>();
  for (size_t i = 0; i < logprobs_->rows.size(); ++i) {
    SampledToken& row = sampled[static_cast<size_t>(logprobs_->rows[i])];
    row.logprob = chosen[i];
    for (int32_t rank = 0; rank < logprobs_->ranks[i]; ++rank) {
      const size_t at =
          i * static_cast<size_t>(logprobs_->top_ids->shape(1)) + static_cast<size_t>(rank);
      row.top.push_back({.token = logprobs_->top_ids->data<int32_t>()[at],
                         .logprob = logprobs_->top_values->data<float>()[at]});
    }
  }
  return sampled;
}

}  // namespace pome::sampling
