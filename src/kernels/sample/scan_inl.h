// Passes over a block of a row of logits, compiled once for each Highway target.

#if defined(POME_KERNELS_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_SCAN_INL_H_
#undef POME_KERNELS_SCAN_INL_H_
#else
#define POME_KERNELS_SCAN_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/sample/row_scan.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// The vector from `x` on; lanes from `left` on hold -inf.
HWY_INLINE FloatVec load_logits(const float* x, int64_t left) {
  const FloatTag d;
  if (left >= static_cast<int64_t>(hn::Lanes(d))) {
    return hn::LoadU(d, x);
  }
  HWY_ALIGN float tail[hn::MaxLanes(d)];
  std::fill(tail, tail + hn::Lanes(d), kLowest);
  std::copy(x, x + left, tail);
  return hn::Load(d, tail);
}

// Calls visit(first index, vector) over the block; lanes past its end hold -inf.
template <class Visit>
HWY_INLINE void each_vector(const float* x, int64_t count, Visit visit) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  for (int64_t i = 0; i < count; i += lanes) {
    visit(i, load_logits(x + i, count - i));
  }
}

// The largest number of a block and whether it is broken; the largest of each group where `groups`
// is given.
HWY_INLINE BlockScan largest_of(const float* x, int64_t count, float* groups) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, kLowest);
  auto largest = lowest;
  auto broken = hn::FirstN(d, 0);
  const int64_t stripe = kGroup * lanes;
  for (int64_t begin = 0; begin < count; begin += stripe) {
    const int64_t end = std::min(count, begin + stripe);
    auto even = lowest;
    auto odd = lowest;
    for (int64_t i = begin; i < end; i += 2 * lanes) {
      const auto a = load_logits(x + i, count - i);
      const auto b = i + lanes < count ? load_logits(x + i + lanes, count - i - lanes) : lowest;
      even = hn::Max(even, a);
      odd = hn::Max(odd, b);
      // The sum of two numbers is none only where one of them is, or where both infinities meet.
      broken = hn::Or(broken, hn::IsNaN(hn::Add(a, b)));
    }
    even = hn::Max(even, odd);
    largest = hn::Max(largest, even);
    if (groups != nullptr) {
      hn::StoreU(even, d, groups + begin / kGroup);
    }
  }
  return {.largest = hn::GetLane(hn::MaxOfLanes(d, largest)), .broken = !hn::AllFalse(d, broken)};
}

// The first place of a value that the block holds.
HWY_INLINE int64_t first_of(const float* x, int64_t count, float value) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, value);
  for (int64_t i = 0; i < count; i += lanes) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(load_logits(x + i, count - i), wanted));
    if (lane >= 0) {
      return i + lane;
    }
  }
  return 0;
}

// e^((x - largest) / temperature), so that the best token of all has weight 1.
HWY_INLINE FloatVec weights_of(FloatVec x, float largest, float per_temperature) {
  const FloatTag d;
  const auto scaled = hn::Mul(hn::Sub(x, hn::Set(d, largest)), hn::Set(d, per_temperature));
  return fast_exp(d, scaled);
}

// The sum of the weights of a block, relative to its own largest.
HWY_INLINE double mass_of(const float* x, int64_t count, float largest, float per_temperature) {
  if (!std::isfinite(largest)) {
    return 0.0;
  }
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Short runs are summed in f32, the runs in f64.
  constexpr int64_t kRun = 1024;
  double total = 0.0;
  for (int64_t begin = 0; begin < count; begin += kRun) {
    const int64_t end = std::min(count, begin + kRun);
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    int64_t i = begin;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      even = hn::Add(even, weights_of(hn::LoadU(d, x + i), largest, per_temperature));
      odd = hn::Add(odd, weights_of(hn::LoadU(d, x + i + lanes), largest, per_temperature));
    }
    for (; i < end; i += lanes) {
      even = hn::Add(even, weights_of(load_logits(x + i, end - i), largest, per_temperature));
    }
    total += double{sum_lanes(d, hn::Add(even, odd))};
  }
  return total;
}

// The first pass over block b.
HWY_INLINE void scan_one_block(RowScan& row, int64_t b) {
  const float* x = row.logits + row.block_begin(b);
  const int64_t count = row.block_size(b);
  float* groups = row.wants_groups ? row.groups.data() + b * kGroupsPerBlock : nullptr;
  BlockScan block = largest_of(x, count, groups);
  if (row.wants_mass) {
    block.mass = mass_of(x, count, block.largest, row.per_temperature);
  }
  row.blocks[b] = block;
}

// The tokens of block b whose logit is at least `least`, in order of id.
HWY_INLINE void find_in_block(RowScan& row, int64_t b, float least) {
  const FloatTag d;
  std::vector<Candidate>& out = row.found[b];
  out.clear();
  if (row.blocks[b].largest < least) {
    return;
  }
  const float* x = row.logits + row.block_begin(b);
  const int64_t count = row.block_size(b);
  const auto id = static_cast<int32_t>(row.block_begin(b));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bound = hn::Set(d, least);
  each_vector(x, count, [&](int64_t i, FloatVec v) {
    if (hn::AllFalse(d, hn::Ge(v, bound))) {
      return;
    }
    for (int64_t j = i; j < std::min(i + lanes, count); ++j) {
      if (x[j] >= least) {
        out.push_back({x[j], id + static_cast<int32_t>(j)});
      }
    }
  });
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_SCAN_INL_H_
