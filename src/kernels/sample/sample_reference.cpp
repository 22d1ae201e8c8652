#include <algorithm>
#include <limits>

#include "kernels/sample/sample.h"

namespace pome::kernels::reference {
namespace {

const float kLowest = -std::numeric_limits<float>::infinity();

mx::array word(uint32_t value) {
  return mx::array(value, mx::uint32);
}

mx::array mix(mx::array h) {
  h = mx::bitwise_xor(h, mx::right_shift(h, word(16))) * word(0x85ebca6b);
  h = mx::bitwise_xor(h, mx::right_shift(h, word(13))) * word(0xc2b2ae35);
  return mx::bitwise_xor(h, mx::right_shift(h, word(16)));
}

template <typename T>
mx::array vector_array(const std::vector<T>& values, mx::Dtype dtype) {
  return mx::array(values.data(), {static_cast<int>(values.size())}, dtype);
}

// One value of each row, [O, 1].
template <typename T, class Of>
mx::array column(const std::vector<SampleRow>& rows, mx::Dtype dtype, Of of) {
  std::vector<T> values;
  for (const SampleRow& row : rows) {
    values.push_back(of(row));
  }
  return mx::expand_dims(vector_array(values, dtype), 1);
}

// [O, V] uint32, as noise_bits() for each row and token.
mx::array hash(const std::vector<SampleRow>& rows, int vocabulary) {
  const mx::array low = column<uint32_t>(
      rows, mx::uint32, [](const SampleRow& row) { return static_cast<uint32_t>(row.seed); });
  const mx::array high = column<uint32_t>(
      rows, mx::uint32, [](const SampleRow& row) { return static_cast<uint32_t>(row.seed >> 32); });
  const mx::array index = column<uint32_t>(rows, mx::uint32, [](const SampleRow& row) {
    return static_cast<uint32_t>(row.output_index);
  });
  const mx::array a = mix(mx::bitwise_xor(low, mix(index * word(0x9E3779B1) + word(0x85EBCA77))));
  const mx::array b = mix(high + a);
  const mx::array ids = mx::expand_dims(mx::astype(mx::arange(vocabulary), mx::uint32), 0);
  return mix(mix(mx::bitwise_xor(ids * word(0x9E3779B1), a)) + b);
}

// The rows' logits with their edits, [O, V].
mx::array edited_logits(const mx::array& logits, const std::vector<SampleRow>& rows) {
  const int vocabulary = logits.shape(1);
  std::vector<int32_t> from;
  std::vector<int32_t> places;  // row · V + token
  std::vector<float> repetition;
  std::vector<float> add;
  for (size_t r = 0; r < rows.size(); ++r) {
    from.push_back(rows[r].place);
    for (const LogitEdit& edit : rows[r].edits) {
      places.push_back(static_cast<int32_t>(r) * vocabulary + edit.token);
      repetition.push_back(edit.repetition);
      add.push_back(edit.add);
    }
  }
  const mx::array taken = mx::take(logits, vector_array(from, mx::int32), 0);
  if (places.empty()) {
    return taken;
  }
  const mx::array flat = mx::reshape(taken, {-1});
  const mx::array index = vector_array(places, mx::int32);
  const mx::array factor = vector_array(repetition, mx::float32);
  const mx::array before = mx::take(flat, index);
  const mx::array scaled =
      mx::where(mx::greater(before, mx::array(0.0f)), before / factor, before * factor);
  const mx::array after = scaled + vector_array(add, mx::float32);
  return mx::reshape(mx::put_along_axis(flat, index, after, 0), taken.shape());
}

// [O, 1]: whether nothing can be drawn from the row.
mx::array is_broken(const mx::array& logits) {
  return mx::logical_or(mx::any(mx::isnan(logits), 1, true),
                        mx::logical_not(mx::isfinite(mx::max(logits, 1, true))));
}

// Where in [R, top_max] and [R, V] the values stand that the rows want.
struct Wanted {
  int32_t top_max = 0;
  std::vector<int32_t> top = {};
  std::vector<int32_t> requested = {};
};

Wanted wanted_of(const LogprobRows& rows, int32_t vocabulary) {
  Wanted wanted;
  for (const LogprobRow& row : rows.rows) {
    wanted.top_max = std::max(wanted.top_max, row.top);
  }
  for (size_t r = 0; r < rows.rows.size(); ++r) {
    const LogprobRow& row = rows.rows[r];
    const auto index = static_cast<int32_t>(r);
    for (int32_t i = 0; i < row.top; ++i) {
      wanted.top.push_back(index * wanted.top_max + i);
    }
    for (int32_t i = row.requested_begin; i < row.requested_end; ++i) {
      wanted.requested.push_back(index * vocabulary + rows.requested[i]);
    }
  }
  return wanted;
}

}  // namespace

Sampled sample(const mx::array& raw, const std::vector<SampleRow>& rows) {
  const int vocabulary = raw.shape(1);
  const mx::array edited = edited_logits(raw, rows);
  const mx::array broken = is_broken(edited);
  const mx::array logits = mx::where(broken, mx::array(0.0f), edited);
  const mx::array temperature =
      column<float>(rows, mx::float32, [](const SampleRow& row) { return row.temperature; });
  const mx::array greedy = temperature <= mx::array(0.0f);
  const mx::array scaled =
      (logits - mx::max(logits, 1, true)) / mx::where(greedy, mx::array(1.0f), temperature);
  // Ranks from the best down; argsort is stable, so equals keep the order of their ids.
  const mx::array order = mx::argsort(-scaled, 1);
  const mx::array sorted = mx::take_along_axis(scaled, order, 1);
  const mx::array rank = mx::expand_dims(mx::arange(vocabulary), 0);
  const mx::array k =
      column<int32_t>(rows, mx::int32, [](const SampleRow& row) { return row.top_k; });
  const mx::array all = mx::logical_or(k <= mx::array(0), k > mx::array(vocabulary));
  mx::array keep = mx::logical_or(all, rank < k);
  mx::array p = mx::softmax(mx::where(keep, sorted, mx::array(kLowest)), 1, true);
  const mx::array before = mx::cumsum(p, 1, false, false);
  const mx::array top_p =
      column<float>(rows, mx::float32, [](const SampleRow& row) { return row.top_p; });
  const mx::array min_p =
      column<float>(rows, mx::float32, [](const SampleRow& row) { return row.min_p; });
  keep = mx::logical_and(keep, mx::logical_or(top_p >= mx::array(1.0f), before < top_p));
  keep = mx::logical_and(keep, p >= min_p * mx::max(p, 1, true));
  keep = mx::logical_or(keep, rank < mx::array(1));
  const mx::array u = (mx::astype(hash(rows, vocabulary), mx::float32) + mx::array(0.5f)) *
                      mx::array(2.3283064365386963e-10f);
  const mx::array e = -mx::log1p(-mx::minimum(u, mx::array(0.99999994f)));
  const mx::array noise = mx::take_along_axis(-mx::log(e), order, 1);
  const mx::array drawn = mx::argmax(mx::where(keep, sorted + noise, mx::array(kLowest)), 1, true);
  const mx::array token = mx::squeeze(mx::take_along_axis(order, drawn, 1), 1);
  const mx::array chosen = mx::where(mx::squeeze(greedy, 1), mx::argmax(logits, 1), token);
  const mx::array none = mx::squeeze(broken, 1);
  return {mx::contiguous(mx::astype(mx::where(none, mx::array(0u), chosen), mx::int32)),
          mx::contiguous(mx::astype(none, mx::int32))};
}

Logprobs logprobs(const mx::array& logits, const mx::array& tokens, const LogprobRows& rows) {
  std::vector<int32_t> places;
  std::vector<int32_t> chosen;
  for (const LogprobRow& row : rows.rows) {
    places.push_back(row.place);
    chosen.push_back(row.token);
  }
  const mx::array raw = mx::take(logits, vector_array(places, mx::int32), 0);
  const mx::array all =
      mx::where(is_broken(raw), mx::array(std::numeric_limits<float>::quiet_NaN()),
                raw - mx::logsumexp(raw, 1, true));
  const mx::array of = mx::take(tokens, vector_array(chosen, mx::int32));
  std::vector<mx::array> values = {
      mx::squeeze(mx::take_along_axis(all, mx::expand_dims(of, 1), 1), 1)};
  const Wanted wanted = wanted_of(rows, logits.shape(1));
  mx::array ids = mx::zeros({1}, mx::int32);
  if (!wanted.top.empty()) {
    const mx::array best =
        mx::slice(mx::argsort(-all, 1), mx::Shape{0, 0}, mx::Shape{raw.shape(0), wanted.top_max});
    const mx::array at = vector_array(wanted.top, mx::int32);
    values.push_back(mx::take(mx::take_along_axis(all, best, 1), at));
    ids = mx::astype(mx::take(best, at), mx::int32);
  }
  if (!wanted.requested.empty()) {
    values.push_back(mx::take(all, vector_array(wanted.requested, mx::int32)));
  }
  return {mx::contiguous(mx::concatenate(values)), mx::contiguous(ids)};
}

}  // namespace pome::kernels::reference
