// Passes over a row of logits: the largest, the k largest, sums of exponentials.

#if defined(POME_KERNELS_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_SCAN_INL_H_
#undef POME_KERNELS_SCAN_INL_H_
#else
#define POME_KERNELS_SCAN_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/sample/candidate.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

HWY_INLINE FloatVec clean(FloatVec v) {
  const FloatTag d;
  return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, kLowest), v);
}

// Calls visit(first index, vector) over the row; lanes past its end hold `fill`.
template <class Visit>
HWY_INLINE void each_vector(const float* row, int64_t count, float fill, Visit visit) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    visit(i, hn::LoadU(d, row + i));
  }
  if (i < count) {
    HWY_ALIGN float tail[hn::MaxLanes(d)];
    std::fill(tail, tail + lanes, fill);
    std::copy(row + i, row + count, tail);
    visit(i, hn::Load(d, tail));
  }
}

// The largest number that is not NaN; -inf where there is none.
HWY_INLINE float largest_of(const float* row, int64_t count) {
  const FloatTag d;
  auto largest = hn::Set(d, kLowest);
  each_vector(row, count, kLowest,
              [&](int64_t, FloatVec v) { largest = hn::Max(largest, clean(v)); });
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// The first place of a value that the row holds, 0 where it holds none.
HWY_INLINE int32_t first_of(const float* row, int64_t count, float value) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, row + i), wanted));
    if (lane >= 0) {
      return static_cast<int32_t>(i + lane);
    }
  }
  for (; i < count; ++i) {
    if (row[i] == value) {
      return static_cast<int32_t>(i);
    }
  }
  return 0;
}

// Sum of e^(x - largest) over the row.
HWY_INLINE double sum_exp(const float* row, int64_t count, float largest) {
  const FloatTag d;
  // Short runs are summed in f32, the runs in f64.
  constexpr int64_t kRun = 1024;
  double total = 0.0;
  for (int64_t first = 0; first < count; first += kRun) {
    auto sum = hn::Zero(d);
    each_vector(row + first, std::min(kRun, count - first), kLowest, [&](int64_t, FloatVec v) {
      sum = hn::Add(sum, fast_exp(d, hn::Sub(clean(v), hn::Set(d, largest))));
    });
    total += double{sum_lanes(d, sum)};
  }
  return total;
}

// The k largest of the row into `best`, best first, ties by lower id: a heap whose worst member
// every vector is held against, so that almost all of them cost one comparison.
HWY_INLINE void largest_k(const float* row, int64_t count, int64_t k,
                          std::vector<Candidate>& best) {
  const FloatTag d;
  best.clear();
  each_vector(row, count, kLowest, [&](int64_t first, FloatVec raw) {
    const auto v = clean(raw);
    const bool full = static_cast<int64_t>(best.size()) == k;
    if (full && hn::AllFalse(d, hn::Gt(v, hn::Set(d, best.front().value)))) {
      return;
    }
    HWY_ALIGN float lanes[hn::MaxLanes(d)];
    hn::Store(v, d, lanes);
    const auto end = std::min<int64_t>(static_cast<int64_t>(hn::Lanes(d)), count - first);
    for (int64_t lane = 0; lane < end; ++lane) {
      const Candidate next{lanes[lane], static_cast<int32_t>(first + lane)};
      if (static_cast<int64_t>(best.size()) < k) {
        best.push_back(next);
        std::push_heap(best.begin(), best.end(), better);
      } else if (better(next, best.front())) {
        std::pop_heap(best.begin(), best.end(), better);
        best.back() = next;
        std::push_heap(best.begin(), best.end(), better);
      }
    }
  });
  std::sort(best.begin(), best.end(), better);
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_SCAN_INL_H_
