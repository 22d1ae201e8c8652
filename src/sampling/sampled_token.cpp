#include "sampling/sampled_token.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace pome::sampling {

void LogprobQuery::add(int32_t place, int32_t index, int32_t top,
                       std::span<const Token> requested) {
  const bool shared = !rows_.rows.empty() && requested.data() == last_requested_.data() &&
                      requested.size() == last_requested_.size();
  if (!shared) {
    rows_.requested.insert(rows_.requested.end(), requested.begin(), requested.end());
    last_requested_ = requested;
  }
  const auto end = static_cast<int32_t>(rows_.requested.size());
  rows_.rows.push_back({.place = place,
                        .token = index,
                        .top = top,
                        .requested_begin = end - static_cast<int32_t>(requested.size()),
                        .requested_end = end});
  offsets_.push_back(next_);
  next_.top += static_cast<size_t>(top);
  next_.requested += requested.size();
}

void LogprobQuery::ask(const mx::array& logits, const mx::array& tokens) {
  answer_ = kernels::logprobs(logits, tokens, rows_);
}

void LogprobQuery::append_arrays(std::vector<mx::array>& arrays) const {
  if (answer_) {
    arrays.push_back(answer_->values);
    arrays.push_back(answer_->ids);
  }
}

void LogprobQuery::read(size_t i, SampledToken& token) const {
  CHECK(answer_.has_value(), "log probabilities are asked for before they are read");
  const auto* chosen = answer_->values.data<float>();
  const float* top = chosen + rows_.rows.size() + offsets_[i].top;
  const float* requested = chosen + rows_.rows.size() + next_.top + offsets_[i].requested;
  const int32_t* ids = answer_->ids.data<int32_t>() + offsets_[i].top;
  const kernels::LogprobRow& row = rows_.rows[i];
  token.logprob = chosen[i];
  token.broken |= std::isnan(token.logprob);
  for (int32_t rank = 0; rank < row.top; ++rank) {
    token.top.push_back({.token = ids[rank], .logprob = top[rank]});
  }
  for (int32_t j = row.requested_begin; j < row.requested_end; ++j) {
    token.requested.push_back({.token = rows_.requested[static_cast<size_t>(j)],
                               .logprob = requested[j - row.requested_begin]});
  }
}

}  // namespace pome::sampling
