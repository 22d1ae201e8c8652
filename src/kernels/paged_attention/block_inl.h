// Attention of a few queries over one block of keys, and the merging of blocks.

#if defined(POME_KERNELS_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_BLOCK_INL_H_
#undef POME_KERNELS_BLOCK_INL_H_
#else
#define POME_KERNELS_BLOCK_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "kernels/paged_attention/paged_attention.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

inline constexpr int kHeadDimMax = 256;
// Queries that share loaded keys and values in registers.
inline constexpr int kQueriesTogether = 4;

// The running softmax of one query: out = values / total once every block is merged.
struct SoftmaxState {
  float largest = -std::numeric_limits<float>::infinity();
  float total = 0.0f;
  HWY_ALIGN float values[kHeadDimMax];
};

// Keys of a block by their place in it; only [begin, end) is set.
template <typename T>
struct KeyBlock {
  const T* k[kKeyBlock];
  const T* v[kKeyBlock];
};

// What one query sees of a block.
struct Span {
  int begin = 0;
  int end = 0;
  bool empty() const { return begin >= end; }
};

// scores[query][key] = q · k for kQ queries over keys [begin, end) rounded out to fours. q rows are
// padded with zeros to whole vectors; `dim` is the keys' own.
template <int kQ, typename T>
HWY_INLINE void score_block(const float* const* q, const KeyBlock<T>& block, Span span, int dim,
                            float (*scores)[kKeyBlock]) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int key = span.begin & ~3; key < span.end; key += 4) {
    const T* rows[4];
    for (int j = 0; j < 4; ++j) {
      // Keys outside the span are masked later: any readable key will do.
      rows[j] = block.k[std::clamp(key + j, span.begin, span.end - 1)];
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
        keys[j] = load_as_float(d, rows[j] + c);
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
        const FloatVec keys = load_as_float_tail(d, rows[j] + c, static_cast<size_t>(dim - c));
        POME_UNROLL
        for (int i = 0; i < kQ; ++i) {
          sums[i][j] = hn::MulAdd(hn::LoadU(d, q[i] + c), keys, sums[i][j]);
        }
      }
    }
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      store_sums(sums[i], scores[i] + key);
    }
  }
}

// What the query does not see becomes -inf.
HWY_INLINE void mask_scores(float* scores, Span span) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int i = 0; i < kKeyBlock; i += lanes) {
    if (i >= span.begin && i + lanes <= span.end) {
      continue;
    }
    const auto key = hn::Iota(di, i);
    const auto seen =
        hn::And(hn::Gt(key, hn::Set(di, span.begin - 1)), hn::Lt(key, hn::Set(di, span.end)));
    const auto score = hn::LoadU(d, scores + i);
    hn::StoreU(hn::IfThenElse(hn::RebindMask(d, seen), score, lowest), d, scores + i);
  }
}

// Scores of one query to weights e^(score - largest); what the query does not see gets 0. Gives the
// largest score and the sum of the weights.
HWY_INLINE void weigh_scores(float* scores, Span span, float softcap, SoftmaxState& state) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const float lowest = -std::numeric_limits<float>::infinity();
  mask_scores(scores, span);
  auto largest = hn::Set(d, lowest);
  for (int i = 0; i < kKeyBlock; i += lanes) {
    auto score = hn::LoadU(d, scores + i);
    if (softcap > 0.0f) {
      // tanh(y) = 1 - 2 / (1 + e^(2 y)); -inf stays below every seen score and is masked again.
      const auto two = hn::Set(d, 2.0f);
      const auto one = hn::Set(d, 1.0f);
      const auto e = fast_exp(d, hn::Mul(score, hn::Set(d, 2.0f / softcap)));
      const auto capped = hn::Mul(hn::Set(d, softcap), hn::Sub(one, hn::Div(two, hn::Add(one, e))));
      score = hn::IfThenElse(hn::Eq(score, hn::Set(d, lowest)), score, capped);
      hn::StoreU(score, d, scores + i);
    }
    largest = hn::Max(largest, score);
  }
  const auto peak = hn::MaxOfLanes(d, largest);
  auto total = hn::Zero(d);
  for (int i = 0; i < kKeyBlock; i += lanes) {
    const auto weight = fast_exp(d, hn::Sub(hn::LoadU(d, scores + i), peak));
    hn::StoreU(weight, d, scores + i);
    total = hn::Add(total, weight);
  }
  state.largest = hn::GetLane(peak);
  state.total = sum_lanes(d, total);
}

// state[i].values = sum of weight · v over keys [begin, end), in key order, for kQ queries.
template <int kQ, typename T>
HWY_INLINE void sum_values(const float (*weights)[kKeyBlock], const KeyBlock<T>& block, Span span,
                           int dim, SoftmaxState* const* states) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  int c = 0;
  for (; c + 4 * lanes <= dim; c += 4 * lanes) {
    FloatVec sums[kQ][4];
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      POME_UNROLL
      for (int j = 0; j < 4; ++j) {
        sums[i][j] = hn::Zero(d);
      }
    }
    for (int key = span.begin; key < span.end; ++key) {
      FloatVec values[4];
      POME_UNROLL
      for (int j = 0; j < 4; ++j) {
        values[j] = load_as_float(d, block.v[key] + c + j * lanes);
      }
      POME_UNROLL
      for (int i = 0; i < kQ; ++i) {
        const FloatVec weight = hn::Set(d, weights[i][key]);
        POME_UNROLL
        for (int j = 0; j < 4; ++j) {
          sums[i][j] = hn::MulAdd(weight, values[j], sums[i][j]);
        }
      }
    }
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      POME_UNROLL
      for (int j = 0; j < 4; ++j) {
        hn::StoreU(sums[i][j], d, states[i]->values + c + j * lanes);
      }
    }
  }
  for (; c < dim; c += lanes) {
    const int left = std::min(lanes, dim - c);
    FloatVec sums[kQ];
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      sums[i] = hn::Zero(d);
    }
    for (int key = span.begin; key < span.end; ++key) {
      const FloatVec value =
          left == lanes ? load_as_float(d, block.v[key] + c)
                        : load_as_float_tail(d, block.v[key] + c, static_cast<size_t>(left));
      POME_UNROLL
      for (int i = 0; i < kQ; ++i) {
        sums[i] = hn::MulAdd(hn::Set(d, weights[i][key]), value, sums[i]);
      }
    }
    POME_UNROLL
    for (int i = 0; i < kQ; ++i) {
      hn::StoreU(sums[i], d, states[i]->values + c);
    }
  }
}

// e^x of one number: the same function, so the same bits, as on vectors.
HWY_INLINE float exp_of(float x) {
  const hn::CappedTag<float, 4> d;
  return hn::GetLane(fast_exp(d, hn::Set(d, x)));
}

// `into` becomes the state of both; `next` holds later keys. One of the two weights is e^0.
HWY_INLINE void merge_states(const SoftmaxState& next, int dim, SoftmaxState& into) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const bool rises = next.largest > into.largest;
  const float other = exp_of(rises ? into.largest - next.largest : next.largest - into.largest);
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

#endif  // POME_KERNELS_BLOCK_INL_H_
