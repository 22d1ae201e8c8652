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

// [O, V] uint32, as noise_bits() for each row and token.
mx::array hash(const SampleRows& rows, int vocabulary) {
  const int count = rows.seed.shape(0);
  const mx::array low = mx::slice(rows.seed, mx::Shape{0, 0}, mx::Shape{count, 1});
  const mx::array high = mx::slice(rows.seed, mx::Shape{0, 1}, mx::Shape{count, 2});
  const mx::array index = mx::expand_dims(mx::astype(rows.output_index, mx::uint32), 1);
  const mx::array a = mix(mx::bitwise_xor(low, mix(index * word(0x9E3779B1) + word(0x85EBCA77))));
  const mx::array b = mix(high + a);
  const mx::array ids = mx::expand_dims(mx::astype(mx::arange(vocabulary), mx::uint32), 0);
  return mix(mix(mx::bitwise_xor(ids * word(0x9E3779B1), a)) + b);
}

mx::array clean(const mx::array& logits) {
  return mx::where(mx::isnan(logits), mx::array(kLowest), logits);
}

}  // namespace

mx::array sample(const mx::array& raw, const SampleRows& rows) {
  const int vocabulary = raw.shape(1);
  const mx::array logits = clean(raw);
  const auto column = [](const mx::array& a) { return mx::expand_dims(a, 1); };
  const mx::array greedy = column(rows.temperature) <= mx::array(0.0f);
  const mx::array scaled = (logits - mx::max(logits, 1, true)) /
                           mx::where(greedy, mx::array(1.0f), column(rows.temperature));
  // Ranks from the best down; argsort is stable, so equals keep the order of their ids.
  const mx::array order = mx::argsort(-scaled, 1);
  const mx::array sorted = mx::take_along_axis(scaled, order, 1);
  const mx::array rank = mx::expand_dims(mx::arange(vocabulary), 0);
  const mx::array k = column(rows.top_k);
  const mx::array all = mx::logical_or(k <= mx::array(0), k > mx::array(vocabulary));
  mx::array keep = mx::logical_or(all, rank < k);
  mx::array p = mx::softmax(mx::where(keep, sorted, mx::array(kLowest)), 1, true);
  const mx::array before = mx::cumsum(p, 1, false, false);
  const mx::array top_p = column(rows.top_p);
  keep = mx::logical_and(keep, mx::logical_or(top_p >= mx::array(1.0f), before < top_p));
  keep = mx::logical_and(keep, p >= column(rows.min_p) * mx::max(p, 1, true));
  keep = mx::logical_or(keep, rank < mx::array(1));
  const mx::array u = (mx::astype(hash(rows, vocabulary), mx::float32) + mx::array(0.5f)) *
                      mx::array(2.3283064365386963e-10f);
  const mx::array e = -mx::log1p(-mx::minimum(u, mx::array(0.99999994f)));
  const mx::array noise = mx::take_along_axis(-mx::log(e), order, 1);
  const mx::array drawn = mx::argmax(mx::where(keep, sorted + noise, mx::array(kLowest)), 1, true);
  const mx::array token = mx::squeeze(mx::take_along_axis(order, drawn, 1), 1);
  return mx::astype(mx::where(mx::squeeze(greedy, 1), mx::argmax(logits, 1), token), mx::int32);
}

mx::array row_logsumexp(const mx::array& logits) {
  return mx::logsumexp(clean(logits), 1);
}

TopLogprobs logprobs_top_k(const mx::array& raw, int32_t k) {
  const mx::array logits = clean(raw);
  const mx::array order =
      mx::slice(mx::argsort(-logits, 1), mx::Shape{0, 0}, mx::Shape{logits.shape(0), k});
  const mx::array values =
      mx::take_along_axis(logits, order, 1) - mx::expand_dims(reference::row_logsumexp(logits), 1);
  return {values, mx::astype(order, mx::int32)};
}

}  // namespace pome::kernels::reference
