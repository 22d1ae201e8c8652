// The softmax of attention: what a query sees, scores to weights, and the merging of splits.

#if defined(POME_KERNELS_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_WEIGHTS_INL_H_
#undef POME_KERNELS_WEIGHTS_INL_H_
#else
#define POME_KERNELS_WEIGHTS_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "kernels/kv_pages/heads/heads_inl.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// A row of a head in the scratch: whole vectors may be stored past its end.
inline constexpr int kHeadStride = kHeadDimMax + 16;
// Keys whose places are looked up together.
inline constexpr int kBlockKeys = 64;
// Scores are kept in units of log 2, so that weights are powers of two.
inline constexpr float kLog2E = 1.44269504f;

// The softmax of one query over some keys: out = values / total once every split is merged.
struct SoftmaxState {
  float largest = -std::numeric_limits<float>::infinity();
  float total = 0.0f;
  HWY_ALIGN float values[kHeadStride] = {};
};

// What one query sees of a split or a block.
struct Span {
  int begin = 0;
  int end = 0;
  bool empty() const { return begin >= end; }
  // The part that lies in the block of keys from `first` on, counted from there.
  Span in_block(int first) const {
    return {std::clamp(begin - first, 0, kBlockKeys), std::clamp(end - first, 0, kBlockKeys)};
  }
};

// From the first key that any of them sees to the last; empty where none sees any.
HWY_INLINE Span union_of(const Span* spans, int count) {
  Span all{std::numeric_limits<int>::max(), 0};
  for (int i = 0; i < count; ++i) {
    if (!spans[i].empty()) {
      all.begin = std::min(all.begin, spans[i].begin);
      all.end = std::max(all.end, spans[i].end);
    }
  }
  return all;
}

// 2^x for x <= 0 within 2 units in the last place; 0 below -126, NaN for NaN.
template <class D>
HWY_INLINE hn::Vec<D> power_of_two(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5 · 2^23 leaves the nearest integer in the lowest bits.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto shifted = hn::Add(x, magic);
  const auto r = hn::Sub(x, hn::Sub(shifted, magic));
  // Minimax on [-1/2, 1/2] (Cephes).
  auto p = hn::MulAdd(hn::Set(d, 1.535336188e-4f), r, hn::Set(d, 1.339887440e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 9.618437357e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.550332471e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 2.402264791e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 6.931472028e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const auto value = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), value);
}

HWY_INLINE float power_of_two(float x) {
  const hn::CappedTag<float, 4> d;
  return hn::GetLane(power_of_two(d, hn::Set(d, x)));
}

// What the query does not see of scores [from, from + lanes) becomes -inf.
HWY_INLINE FloatVec visible(FloatVec score, int from, Span span) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  if (from >= span.begin && from + static_cast<int>(hn::Lanes(d)) <= span.end) {
    return score;
  }
  const auto key = hn::Iota(di, from);
  const auto seen =
      hn::And(hn::Gt(key, hn::Set(di, span.begin - 1)), hn::Lt(key, hn::Set(di, span.end)));
  return hn::IfThenElse(hn::RebindMask(d, seen), score,
                        hn::Set(d, -std::numeric_limits<float>::infinity()));
}

// softcap · tanh(score / softcap), in units of log 2.
HWY_INLINE FloatVec capped(FloatVec score, float softcap) {
  const FloatTag d;
  // tanh(|y|) = (1 - t) / (1 + t) with t = e^(-2 |y|).
  const auto t = power_of_two(d, hn::Mul(hn::Abs(score), hn::Set(d, -2.0f * kLog2E / softcap)));
  const auto one = hn::Set(d, 1.0f);
  const auto tanh = hn::Div(hn::Sub(one, t), hn::Add(one, t));
  return hn::Mul(hn::Set(d, softcap * kLog2E), hn::CopySign(tanh, score));
}

// Scores of one query over a split to weights 2^(score - largest); what it does not see of `all`
// gets 0. Gives the largest score and the sum of the weights.
HWY_INLINE void weigh_scores(float* scores, Span span, Span all, float softcap,
                             SoftmaxState& state) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const int begin = all.begin / lanes * lanes;
  auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int i = begin; i < all.end; i += lanes) {
    auto score = hn::LoadU(d, scores + i);
    if (softcap > 0.0f) {
      score = capped(score, softcap);
    }
    score = visible(score, i, span);
    hn::StoreU(score, d, scores + i);
    largest = hn::Max(largest, score);
  }
  const auto peak = hn::MaxOfLanes(d, largest);
  auto total = hn::Zero(d);
  for (int i = begin; i < all.end; i += lanes) {
    const auto weight = power_of_two(d, hn::Sub(hn::LoadU(d, scores + i), peak));
    hn::StoreU(weight, d, scores + i);
    total = hn::Add(total, weight);
  }
  state.largest = hn::GetLane(peak);
  state.total = sum_lanes(d, total);
}

// `into` becomes the state of both; `next` holds later keys. One of the two weights is 2^0.
HWY_INLINE void merge_states(const SoftmaxState& next, int dim, SoftmaxState& into) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const bool rises = next.largest > into.largest;
  const float other =
      power_of_two(rises ? into.largest - next.largest : next.largest - into.largest);
  const float keep = rises ? other : 1.0f;
  const float add = rises ? 1.0f : other;
  into.largest = rises ? next.largest : into.largest;
  into.total = into.total * keep + next.total * add;
  for (int c = 0; c < dim; c += lanes) {
    const auto kept = hn::Mul(hn::LoadU(d, into.values + c), hn::Set(d, keep));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, next.values + c), hn::Set(d, add), kept), d,
               into.values + c);
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_WEIGHTS_INL_H_
