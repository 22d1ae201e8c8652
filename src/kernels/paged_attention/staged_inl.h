// A block of keys and values as floats, for jobs of many queries: keys transposed, so that a vector
// holds one column of several keys and no sum crosses lanes.

#if defined(POME_KERNELS_STAGED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_STAGED_INL_H_
#undef POME_KERNELS_STAGED_INL_H_
#else
#define POME_KERNELS_STAGED_INL_H_
#endif

#include "kernels/paged_attention/block_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// A block's keys as [dim][kBlockKeys], or its values as [kBlockKeys][dim up to a whole vector].
struct StagedBlock {
  HWY_ALIGN float floats[kHeadStride * kBlockKeys] = {};
};

// Stores the 128-bit parts of a vector `stride` floats apart.
template <class D>
HWY_INLINE void store_parts(D d, hn::Vec<D> v, int stride, float* to) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    constexpr int kParts = static_cast<int>(hn::MaxLanes(D()) / 8);
    store_parts(half, hn::LowerHalf(half, v), stride, to);
    store_parts(half, hn::UpperHalf(half, v), stride, to + kParts * stride);
  }
}

// Columns of four keys, turned inside each 128-bit part: column c + 4 p + j of the keys lies in
// part p of row j.
HWY_INLINE void stage_four(const FloatVec (&keys)[4], float* to) {
  const FloatTag d;
  const hn::Repartition<double, FloatTag> dd;
  const auto ab_low = hn::BitCast(dd, hn::InterleaveLower(d, keys[0], keys[1]));
  const auto ab_high = hn::BitCast(dd, hn::InterleaveUpper(d, keys[0], keys[1]));
  const auto cd_low = hn::BitCast(dd, hn::InterleaveLower(d, keys[2], keys[3]));
  const auto cd_high = hn::BitCast(dd, hn::InterleaveUpper(d, keys[2], keys[3]));
  constexpr int kPart = 4 * kBlockKeys;
  store_parts(d, hn::BitCast(d, hn::InterleaveLower(dd, ab_low, cd_low)), kPart, to);
  store_parts(d, hn::BitCast(d, hn::InterleaveUpper(dd, ab_low, cd_low)), kPart, to + kBlockKeys);
  store_parts(d, hn::BitCast(d, hn::InterleaveLower(dd, ab_high, cd_high)), kPart,
              to + 2 * kBlockKeys);
  store_parts(d, hn::BitCast(d, hn::InterleaveUpper(dd, ab_high, cd_high)), kPart,
              to + 3 * kBlockKeys);
}

// Keys [begin, end) rounded out to fours; what lies outside the span is some key of it.
template <class Rows>
HWY_INLINE void stage_keys(const Rows& k, Span span, int dim, StagedBlock& staged) {
  const auto lanes = static_cast<int>(hn::Lanes(FloatTag()));
  for (int key = span.begin & ~3; key < span.end; key += 4) {
    int place[4];
    for (int j = 0; j < 4; ++j) {
      place[j] = std::clamp(key + j, span.begin, span.end - 1);
    }
    for (int c = 0; c < dim; c += lanes) {
      FloatVec keys[4];
      for (int j = 0; j < 4; ++j) {
        keys[j] = c + lanes <= dim ? k.load(place[j], c) : k.load_tail(place[j], c, dim - c);
      }
      stage_four(keys, staged.floats + c * kBlockKeys + key);
    }
  }
}

template <class Rows>
HWY_INLINE void stage_values(const Rows& v, Span span, int dim, StagedBlock& staged,
                             FloatRows<float, kBlockKeys>& rows) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const int stride = (dim + 15) / 16 * 16;
  for (int key = span.begin; key < span.end; ++key) {
    float* to = staged.floats + key * stride;
    int c = 0;
    for (; c + lanes <= dim; c += lanes) {
      hn::StoreU(v.load(key, c), d, to + c);
    }
    if (c < dim) {
      hn::StoreU(v.load_tail(key, c, dim - c), d, to + c);
    }
    rows.rows[key] = to;
  }
}

// Two vectors of keys against kQ queries.
template <int kQ>
struct ScoreTile {
  FloatVec sum[kQ][2];

  HWY_INLINE void add(const ScoreTile& other) {
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      sum[i][0] = hn::Add(sum[i][0], other.sum[i][0]);
      sum[i][1] = hn::Add(sum[i][1], other.sum[i][1]);
    }
  }
};

// The products of columns first, first + lanes, …: what one lane of score_block() sums.
template <int kQ>
HWY_INLINE ScoreTile<kQ> score_lane(const float* const* q, const float* k, int first, int dim) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  ScoreTile<kQ> tile;
  POME_UNROLL
  for (int i = 0; i < kQ; ++i) {
    tile.sum[i][0] = hn::Zero(d);
    tile.sum[i][1] = hn::Zero(d);
  }
  for (int c = first; c < dim; c += lanes) {
    const FloatVec low = hn::LoadU(d, k + c * kBlockKeys);
    const FloatVec high = hn::LoadU(d, k + c * kBlockKeys + lanes);
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      const FloatVec query = hn::Set(d, q[i][c]);
      tile.sum[i][0] = hn::MulAdd(query, low, tile.sum[i][0]);
      tile.sum[i][1] = hn::MulAdd(query, high, tile.sum[i][1]);
    }
  }
  return tile;
}

// What lanes first and first + 2 of score_block() sum, added. One after the other: the sums of both
// at once are more than 16 registers hold.
template <int kQ>
HWY_INLINE ScoreTile<kQ> score_lanes(const float* const* q, const float* k, int first, int dim) {
  ScoreTile<kQ> sum = score_lane<kQ>(q, k, first, dim);
  sum.add(score_lane<kQ>(q, k, first + 2, dim));
  return sum;
}

// Parts part, part + step, … as store_parts_sum() adds them: each with the one that lies half of
// all the parts further on, and so on; inside a part as sum_within_parts() adds lanes.
template <int kQ, int kParts>
HWY_INLINE ScoreTile<kQ> score_parts(const float* const* q, const float* k, int part, int step,
                                     int dim) {
  if constexpr (kParts == 1) {
    ScoreTile<kQ> sum = score_lanes<kQ>(q, k, 4 * part, dim);
    sum.add(score_lanes<kQ>(q, k, 4 * part + 1, dim));
    return sum;
  } else {
    ScoreTile<kQ> sum = score_parts<kQ, kParts / 2>(q, k, part, step * 2, dim);
    sum.add(score_parts<kQ, kParts / 2>(q, k, part + step, step * 2, dim));
    return sum;
  }
}

// The scores of score_block(), bit for bit, from staged keys.
template <int kQ>
HWY_INLINE void score_staged(const float* const* q, const StagedBlock& staged, Span span, int dim,
                             int first, ScoreRows scores) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  constexpr int kParts = static_cast<int>(hn::MaxLanes(FloatTag()) / 4);
  for (int key = span.begin / (2 * lanes) * (2 * lanes); key < span.end; key += 2 * lanes) {
    const ScoreTile<kQ> tile = score_parts<kQ, kParts>(q, staged.floats + key, 0, 1, dim);
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      hn::StoreU(tile.sum[i][0], d, scores[i] + first + key);
      hn::StoreU(tile.sum[i][1], d, scores[i] + first + key + lanes);
    }
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_STAGED_INL_H_
