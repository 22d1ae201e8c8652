// Heads of keys and values in pages: storing them, for paged_append and rope_append, and reading
// them back as floats.

#if defined(POME_KERNELS_HEADS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POME_KERNELS_HEADS_INL_H_
#undef POME_KERNELS_HEADS_INL_H_
#else
#define POME_KERNELS_HEADS_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/kv_pages/heads/rotation_inl.h"
#include "kernels/kv_pages/page_memory.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

inline constexpr int kHeadDimMax = 256;
inline constexpr int kGroupSizeMax = 128;
inline constexpr int kHeadGroupsMax = 8;  // heads of 256 in groups of 32
inline constexpr float kHalfMax = 65504.0f;

template <typename T>
HWY_INLINE void store_elements(const float* from, int64_t count, T* to) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store_float_as(d, hn::LoadU(d, from + i), to + i);
  }
  if (i < count) {
    HWY_ALIGN T rounded[hn::MaxLanes(d)];
    store_float_as(d, load_tail(d, from + i, static_cast<size_t>(count - i)), rounded);
    std::memcpy(to + i, rounded, static_cast<size_t>(count - i) * sizeof(T));
  }
}

// The nearest IEEE half, written to `to`; what was written, as a float.
HWY_INLINE float store_half(float value, uint8_t* to) {
  const hn::CappedTag<float, 4> d;
  HWY_ALIGN hwy::float16_t halves[4];
  store_float_as(d, hn::Set(d, value), halves);
  std::memcpy(to, halves, sizeof(hwy::float16_t));
  return hn::GetLane(load_as_float(d, halves));
}

// Up to kGroupSizeMax numbers to codes 0 … levels, one a byte; scale and bias go to `factors`. The
// bias is rounded below the smallest number and the scale up, so no number lies outside.
HWY_INLINE void encode_group(const float* from, int count, float levels, uint8_t* codes,
                             uint8_t* factors) {
  const FloatTag d;
  const hn::Rebind<uint8_t, FloatTag> narrow;
  const hn::RebindToSigned<FloatTag> di;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  HWY_ALIGN float padded[kGroupSizeMax];
  const float* x = from;
  if (count % lanes != 0) {
    std::memcpy(padded, from, static_cast<size_t>(count) * sizeof(float));
    std::fill(padded + count, padded + (count + lanes - 1) / lanes * lanes, from[0]);
    x = padded;
  }
  auto smallest = hn::LoadU(d, x);
  auto largest = smallest;
  auto poison = hn::Zero(d);
  for (int i = 0; i < count; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    smallest = hn::Min(smallest, v);
    largest = hn::Max(largest, v);
    poison = hn::MulAdd(v, hn::Zero(d), poison);
  }
  const bool finite = sum_lanes(d, poison) == 0.0f;
  const float low = std::clamp(hn::GetLane(hn::MinOfLanes(d, smallest)), -kHalfMax, kHalfMax);
  const float high = std::clamp(hn::GetLane(hn::MaxOfLanes(d, largest)), -kHalfMax, kHalfMax);
  constexpr float kStep = 0x1p-11f;      // half the distance of two halves, relative, at most
  constexpr float kSmallest = 0x1p-25f;  // half the smallest half
  const float below = std::max(low - (std::abs(low) * kStep + kSmallest), -kHalfMax);
  const float bias = store_half(finite ? below : std::nanf(""), factors + 2);
  const float step = finite ? (high - bias) / levels : 0.0f;
  const float scale = store_half(step + (step * kStep + kSmallest), factors);
  const auto inverse = hn::Set(d, scale > 0.0f ? 1.0f / scale : 0.0f);
  for (int i = 0; i < count; i += lanes) {
    const auto scaled = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, bias)), inverse);
    const auto bounded = hn::Min(hn::Max(scaled, hn::Zero(d)), hn::Set(d, levels));
    const auto code =
        hn::IfThenElseZero(hn::RebindMask(di, hn::Eq(scaled, scaled)), hn::NearestInt(bounded));
    hn::StoreU(hn::DemoteTo(narrow, code), narrow, codes + i);
  }
}

// One head of one token: its codes, then scale and bias of each group.
HWY_INLINE void encode_head(const PageMemory& pages, const float* values, uint8_t* row) {
  const auto dim = static_cast<int>(pages.dim);
  const auto group = static_cast<int>(pages.group_size);
  HWY_ALIGN float rotated[kHeadDimMax + 16];
  if (pages.rotated) {
    std::memcpy(rotated, values, static_cast<size_t>(dim) * sizeof(float));
    rotate_head(rotated, dim, Rotated::key);
    values = rotated;
  }
  uint8_t* factors = row + pages.code_bytes();
  // Whole vectors are stored, past the codes of a short group too.
  HWY_ALIGN uint8_t codes[kGroupSizeMax + 16];
  for (int c = 0; c < dim; c += group, factors += 4) {
    const int count = std::min(group, dim - c);
    if (pages.type == PageType::int8) {
      encode_group(values + c, count, 255.0f, codes, factors);
      std::memcpy(row + c, codes, static_cast<size_t>(count));
    } else {
      encode_group(values + c, count, 15.0f, codes, factors);
      for (int i = 0; i < count; i += 2) {
        row[(c + i) / 2] = static_cast<uint8_t>(codes[i] | (codes[i + 1] << 4));
      }
    }
  }
}

// One token's values [heads, dim] to one slot.
HWY_INLINE void store_slot(const PageMemory& pages, const float* values, int32_t slot) {
  if (slot < 0 || slot >= pages.slots()) {
    return;
  }
  const int64_t count = pages.token_elements();
  uint8_t* to = static_cast<uint8_t*>(pages.data) + slot * pages.token_bytes();
  switch (pages.type) {
    case PageType::f32:
      return store_elements(values, count, reinterpret_cast<float*>(to));
    case PageType::f16:
      return store_elements(values, count, reinterpret_cast<hwy::float16_t*>(to));
    case PageType::bf16:
      return store_elements(values, count, reinterpret_cast<hwy::bfloat16_t*>(to));
    case PageType::int8:
    case PageType::int4:
      for (int64_t head = 0; head < pages.heads; ++head) {
        encode_head(pages, values + head * pages.dim, to + head * pages.head_bytes);
      }
  }
}

// Heads of kCount tokens by their place, as floats: columns [c, c + lanes) of head `key`.
template <typename T, int kCount>
struct FloatRows {
  explicit FloatRows(const PageMemory&) {}
  FloatRows() = default;

  HWY_INLINE void set(int key, const uint8_t* row) { rows[key] = reinterpret_cast<const T*>(row); }
  HWY_INLINE void prepare(int, int) {}
  HWY_INLINE FloatVec load(int key, int c) const {
    return load_as_float(FloatTag(), rows[key] + c);
  }
  HWY_INLINE FloatVec load_tail(int key, int c, int count) const {
    return load_as_float_tail(FloatTag(), rows[key] + c, static_cast<size_t>(count));
  }

  const T* rows[kCount];
};

template <int kBits, int kCount>
struct CodedRows {
  explicit CodedRows(const PageMemory& pages)
      : code_bytes(pages.code_bytes()), groups(static_cast<int>(pages.groups())) {
    while ((int64_t{1} << shift) < pages.group_size) {
      ++shift;
    }
  }

  HWY_INLINE void set(int key, const uint8_t* row) {
    rows[key] = row;
    for (int g = 0; g < groups; ++g) {
      std::memcpy(halves[g] + 2 * key, row + code_bytes + 4 * g, 4);
    }
  }
  // Scales and biases of heads [begin, end) as floats.
  HWY_INLINE void prepare(int begin, int end) {
    const FloatTag d;
    const auto lanes = static_cast<int>(hn::Lanes(d));
    for (int g = 0; g < groups; ++g) {
      for (int i = 2 * begin / lanes * lanes; i < 2 * end; i += lanes) {
        hn::StoreU(load_as_float(d, halves[g] + i), d, factors[g] + i);
      }
    }
  }
  HWY_INLINE FloatVec load(int key, int c) const {
    return decode(codes(rows[key] + c * kBits / 8), key, c);
  }
  // The columns past `count` hold something.
  HWY_INLINE FloatVec load_tail(int key, int c, int count) const {
    HWY_ALIGN uint8_t bytes[16] = {};
    std::memcpy(bytes, rows[key] + c * kBits / 8, static_cast<size_t>(count * kBits / 8));
    return decode(codes(bytes), key, c);
  }

  static HWY_INLINE FloatVec codes(const uint8_t* from) {
    const FloatTag d;
    const hn::RebindToSigned<FloatTag> di;
    const hn::Rebind<uint8_t, FloatTag> narrow;
    if constexpr (kBits == 8) {
      return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(narrow, from)));
    } else {
      // Half as many bytes as lanes, in the lower half of the vector.
      using Word = hwy::UnsignedFromSize<hn::MaxLanes(FloatTag()) / 2>;
      Word word;
      std::memcpy(&word, from, sizeof(word));
      const hn::Repartition<Word, decltype(narrow)> wide;
      const hn::Repartition<uint16_t, decltype(narrow)> shorts;
      const auto pairs = hn::BitCast(shorts, hn::Set(wide, word));
      const auto fifteen = hn::Set(narrow, 15);
      const auto low = hn::And(hn::BitCast(narrow, pairs), fifteen);
      const auto high = hn::And(hn::BitCast(narrow, hn::ShiftRight<4>(pairs)), fifteen);
      return hn::ConvertTo(d, hn::PromoteTo(di, hn::InterleaveLower(narrow, low, high)));
    }
  }
  HWY_INLINE FloatVec decode(FloatVec codes, int key, int c) const {
    const FloatTag d;
    const float* factor = factors[c >> shift] + 2 * key;
    return hn::MulAdd(codes, hn::Set(d, factor[0]), hn::Set(d, factor[1]));
  }

  const uint8_t* rows[kCount];
  int64_t code_bytes;
  int groups;
  int shift = 0;
  HWY_ALIGN hwy::float16_t halves[kHeadGroupsMax][2 * kCount];
  HWY_ALIGN float factors[kHeadGroupsMax][2 * kCount];
};

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // POME_KERNELS_HEADS_INL_H_
