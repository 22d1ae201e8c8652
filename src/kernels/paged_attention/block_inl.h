// A few queries against a block of keys as they lie in the pages: scores, and weighted values.

#if defined(POME_KERNELS_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_BLOCK_INL_H_
#undef POME_KERNELS_BLOCK_INL_H_
#else
#define POME_KERNELS_BLOCK_INL_H_
#endif

#include <algorithm>

#include "kernels/kv_pages/heads/heads_inl.h"
#include "kernels/paged_attention/attention_jobs.h"
#include "kernels/paged_attention/weights_inl.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// Queries that share loaded keys and values in registers.
inline constexpr int kQueriesTogether = 4;

// A block of the queries' rows of scores or weights, kSplitKeys floats apart.
using ScoreRows = float (*)[kSplitKeys];

// scores[query][first + key] = q · k for kQ queries over keys [begin, end) of the block, rounded
// out to fours. q rows are padded with zeros to whole vectors; `dim` is the keys' own. A lane sums
// every lanes-th product in order, then store_sums() adds the lanes: score_staged() does the same.
template <int kQ, class Rows>
HWY_INLINE void score_block(const float* const* q, const Rows& k, Span span, int dim, int first,
                            ScoreRows scores) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int key = span.begin & ~3; key < span.end; key += 4) {
    int place[4];
    for (int j = 0; j < 4; ++j) {
      // Keys outside the span are masked later: any readable key will do.
      place[j] = std::clamp(key + j, span.begin, span.end - 1);
    }
    FloatVec sums[kQ][4];
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      POME_UNROLL
      for (int j = 0; j < 4; ++j) {
        sums[i][j] = hn::Zero(d);
      }
    }
    int c = 0;
    for (; c + lanes <= dim; c += lanes) {
      FloatVec keys[4];
      POME_UNROLL
      for (int j = 0; j < 4; ++j) {
        keys[j] = k.load(place[j], c);
      }
      POME_UNROLL
      for (int i = 0; i < kQ; ++i) {
        const FloatVec query = hn::LoadU(d, q[i] + c);
        POME_UNROLL
        for (int j = 0; j < 4; ++j) {
          sums[i][j] = hn::MulAdd(query, keys[j], sums[i][j]);
        }
      }
    }
    if (c < dim) {
      POME_UNROLL
      for (int j = 0; j < 4; ++j) {
        const FloatVec keys = k.load_tail(place[j], c, dim - c);
        POME_UNROLL
        for (int i = 0; i < kQ; ++i) {
          sums[i][j] = hn::MulAdd(hn::LoadU(d, q[i] + c), keys, sums[i][j]);
        }
      }
    }
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      store_sums(sums[i], scores[i] + first + key);
    }
  }
}

// kWide vectors of the values from column c on.
template <int kQ, int kWide, class Rows>
HWY_INLINE void sum_columns(const ScoreRows weights, const Rows& v, Span span, int first, int c,
                            SoftmaxState* states) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  FloatVec sums[kQ][kWide];
  POME_UNROLL
  for (int i = 0; i < kQ; ++i) {
    POME_UNROLL
    for (int j = 0; j < kWide; ++j) {
      sums[i][j] = hn::LoadU(d, states[i].values + c + j * lanes);
    }
  }
  for (int key = span.begin; key < span.end; ++key) {
    FloatVec weight[kQ];
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      weight[i] = hn::Set(d, weights[i][first + key]);
    }
    // One vector of values at a time: on 16 registers the sums of three queries just fit.
    POME_UNROLL
    for (int j = 0; j < kWide; ++j) {
      const FloatVec values = v.load(key, c + j * lanes);
      POME_UNROLL
      for (int i = 0; i < kQ; ++i) {
        sums[i][j] = hn::MulAdd(weight[i], values, sums[i][j]);
      }
    }
  }
  POME_UNROLL
  for (int i = 0; i < kQ; ++i) {
    POME_UNROLL
    for (int j = 0; j < kWide; ++j) {
      hn::StoreU(sums[i][j], d, states[i].values + c + j * lanes);
    }
  }
}

// The columns of the last, incomplete vector.
template <int kQ, class Rows>
HWY_INLINE void sum_tail(const ScoreRows weights, const Rows& v, Span span, int first, int c,
                         int count, SoftmaxState* states) {
  const FloatTag d;
  for (int key = span.begin; key < span.end; ++key) {
    const FloatVec value = v.load_tail(key, c, count);
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      float* sum = states[i].values + c;
      const FloatVec weight = hn::Set(d, weights[i][first + key]);
      hn::StoreU(hn::MulAdd(weight, value, hn::LoadU(d, sum)), d, sum);
    }
  }
}

// states[i].values += weight · v over keys [begin, end) of the block, in key order, for kQ queries.
template <int kQ, class Rows>
HWY_INLINE void sum_values(const ScoreRows weights, const Rows& v, Span span, int dim, int first,
                           SoftmaxState* states) {
  const auto lanes = static_cast<int>(hn::Lanes(FloatTag()));
  constexpr int kWide = kQ > 3 && hn::MaxLanes(FloatTag()) < 16 ? 2 : 4;
  int c = 0;
  for (; c + kWide * lanes <= dim; c += kWide * lanes) {
    sum_columns<kQ, kWide>(weights, v, span, first, c, states);
  }
  for (; c + lanes <= dim; c += lanes) {
    sum_columns<kQ, 1>(weights, v, span, first, c, states);
  }
  if (c < dim) {
    sum_tail<kQ>(weights, v, span, first, c, dim - c, states);
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_BLOCK_INL_H_
