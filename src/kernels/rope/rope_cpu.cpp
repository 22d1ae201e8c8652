#include "kernels/rope/rope_cpu.h"

#include <algorithm>
#include <cmath>

#include "kernels/counters.h"
#include "kernels/highway_targets.h"
#include "kernels/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope/rope_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/kv_pages/heads/heads_inl.h"
#include "kernels/norm/norm_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

inline constexpr size_t kPairsMax = 128;

// Sine and cosine of one token's angles, padded with zeros to whole vectors.
struct Angles {
  HWY_ALIGN float sine[kPairsMax + 16];
  HWY_ALIGN float cosine[kPairsMax + 16];
};

// Quarter turns are taken off in three steps that are exact for |x| < 2^20 with
// fused multiply-adds (Cody and Waite); then
// Taylor-like minimax polynomials on [-pi/4, pi/4] (Cephes).
HWY_INLINE void sine_and_cosine(FloatVec x, FloatVec& sine, FloatVec& cosine) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const auto quarters = hn::Round(hn::Mul(x, hn::Set(d, 0.636619772f)));
  auto r = hn::NegMulAdd(quarters, hn::Set(d, 1.5703125f), x);
  r = hn::NegMulAdd(quarters, hn::Set(d, 4.837512969970703125e-4f), r);
  r = hn::NegMulAdd(quarters, hn::Set(d, 7.549789948768648e-8f), r);
  const auto r2 = hn::Mul(r, r);
  auto s = hn::MulAdd(r2, hn::Set(d, -1.9515295891e-4f), hn::Set(d, 8.3321608736e-3f));
  s = hn::MulAdd(s, r2, hn::Set(d, -1.6666654611e-1f));
  s = hn::MulAdd(hn::Mul(s, r2), r, r);
  auto c = hn::MulAdd(r2, hn::Set(d, 2.443315711809948e-5f), hn::Set(d, -1.388731625493765e-3f));
  c = hn::MulAdd(c, r2, hn::Set(d, 4.166664568298827e-2f));
  c = hn::MulAdd(hn::Mul(c, r2), r2, hn::NegMulAdd(hn::Set(d, 0.5f), r2, hn::Set(d, 1.0f)));
  // Odd quarters swap the two; the sign follows the quadrant.
  const auto q = hn::ConvertTo(di, quarters);
  const auto one = hn::Set(di, 1);
  const auto two = hn::Set(di, 2);
  const auto odd = hn::RebindMask(d, hn::Eq(hn::And(q, one), one));
  const auto sine_sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(q, two)));
  const auto cosine_sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(hn::Add(q, one), two)));
  sine = hn::Xor(hn::IfThenElse(odd, c, s), sine_sign);
  cosine = hn::Xor(hn::IfThenElse(odd, s, c), cosine_sign);
}

void fill_angles(const RopeTable& t, int32_t position, Angles& angles) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const auto pairs = static_cast<size_t>(t.dims / 2);
  const float at = static_cast<float>(position) * t.scale;
  // Past the exact range of the vector form the C library is right, and rare.
  constexpr float kExact = HWY_NATIVE_FMA ? 1048576.0f : 8192.0f;
  for (size_t i = 0; i < pairs; i += lanes) {
    const size_t left = std::min(lanes, pairs - i);
    const auto frequencies =
        left == lanes ? hn::LoadU(d, t.frequencies + i) : load_tail(d, t.frequencies + i, left);
    const auto x = hn::Mul(hn::Set(d, at), frequencies);
    FloatVec sine;
    FloatVec cosine;
    if (hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, kExact)))) {
      sine_and_cosine(x, sine, cosine);
    } else {
      HWY_ALIGN float lane[hn::MaxLanes(d)];
      HWY_ALIGN float sines[hn::MaxLanes(d)];
      hn::Store(x, d, lane);
      for (size_t j = 0; j < lanes; ++j) {
        sines[j] = std::sin(lane[j]);
        lane[j] = std::cos(lane[j]);
      }
      sine = hn::Load(d, sines);
      cosine = hn::Load(d, lane);
    }
    const auto amplitude = hn::Set(d, t.amplitude);
    hn::StoreU(hn::Mul(sine, amplitude), d, angles.sine + i);
    hn::StoreU(hn::Mul(cosine, amplitude), d, angles.cosine + i);
  }
}

// a' = a cos - b sin, b' = b cos + a sin.
HWY_INLINE void turn(FloatVec& a, FloatVec& b, FloatVec sine, FloatVec cosine) {
  const auto turned = hn::NegMulAdd(b, sine, hn::Mul(a, cosine));
  b = hn::MulAdd(a, sine, hn::Mul(b, cosine));
  a = turned;
}

// One head; out may be x.
HWY_INLINE void rotate_head(const RopeTable& t, const Angles& angles, const float* x, size_t dim,
                            float* out) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const auto dims = static_cast<size_t>(t.dims);
  const size_t pairs = dims / 2;
  HWY_ALIGN float first[kPairsMax + 16] = {};
  HWY_ALIGN float second[kPairsMax + 16] = {};
  const float* a = x;
  const float* b = x + pairs;
  if (t.traditional || pairs % lanes != 0) {
    const size_t step = t.traditional ? 2 : 1;
    const size_t apart = t.traditional ? 1 : pairs;
    for (size_t i = 0; i < pairs; ++i) {
      first[i] = x[i * step];
      second[i] = x[i * step + apart];
    }
    a = first;
    b = second;
  }
  for (size_t i = 0; i < pairs; i += lanes) {
    auto va = hn::LoadU(d, a + i);
    auto vb = hn::LoadU(d, b + i);
    turn(va, vb, hn::LoadU(d, angles.sine + i), hn::LoadU(d, angles.cosine + i));
    if (a == first) {
      hn::Store(va, d, first + i);
      hn::Store(vb, d, second + i);
    } else {
      hn::StoreU(va, d, out + i);
      hn::StoreU(vb, d, out + pairs + i);
    }
  }
  if (a == first) {
    const size_t step = t.traditional ? 2 : 1;
    const size_t apart = t.traditional ? 1 : pairs;
    for (size_t i = 0; i < pairs; ++i) {
      out[i * step] = first[i];
      out[i * step + apart] = second[i];
    }
  }
  if (out != x) {
    std::copy(x + dims, x + dim, out + dims);
  }
}

void rope_tokens(const RopeTable& t, const float* x, int64_t begin, int64_t end, int64_t heads,
                 int64_t dim, float* out) {
  Angles angles = {};
  for (int64_t token = begin; token < end; ++token) {
    fill_angles(t, t.positions[token], angles);
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = (token * heads + h) * dim;
      rotate_head(t, angles, x + at, static_cast<size_t>(dim), out + at);
    }
  }
}

// Norm (if any) and rotation of `heads` heads side by side.
HWY_INLINE void prepare_heads(const RopeAppend& w, const Angles& angles, const float* x,
                              int64_t heads, const float* norm, float* out) {
  const auto dim = static_cast<size_t>(w.k.dim);
  for (int64_t h = 0; h < heads; ++h) {
    const float* from = x + h * w.k.dim;
    float* to = out + h * w.k.dim;
    if (norm != nullptr) {
      rms_norm_row(from, norm, dim, w.eps, to);
      from = to;
    }
    rotate_head(w.table, angles, from, dim, to);
  }
}

void rope_append_tokens(const RopeAppend& w, int64_t begin, int64_t end, float* k) {
  Angles angles = {};
  const int64_t q_size = w.q_heads * w.k.dim;
  const int64_t kv_size = w.k.token_elements();
  for (int64_t t = begin; t < end; ++t) {
    const float* from = w.qkv + t * (q_size + 2 * kv_size);
    fill_angles(w.table, w.table.positions[t], angles);
    prepare_heads(w, angles, from, w.q_heads, w.q_norm, w.q + t * q_size);
    prepare_heads(w, angles, from + q_size, w.k.heads, w.k_norm, k);
    store_slot(w.k, k, w.slots[t]);
    store_slot(w.v, from + q_size + kv_size, w.slots[t]);
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <vector>

namespace pome::kernels {
namespace {

HWY_EXPORT(rope_tokens);
HWY_EXPORT(rope_append_tokens);

VariantCounter count_rope("rope/rope");
VariantCounter count_rope_append("rope/rope_append");

int64_t token_grain(int64_t floats_per_token) {
  constexpr int64_t kElements = 8192;  // a range worth claiming
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, floats_per_token));
}

}  // namespace

void run_rope(const RopeTable& table, const float* x, int64_t tokens, int64_t heads, int64_t dim,
              float* out) {
  count_rope.add();
  parallel_for(tokens, token_grain(heads * dim), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(rope_tokens)(table, x, begin, end, heads, dim, out);
  });
}

void run_rope_append(const RopeAppend& work) {
  count_rope_append.add();
  const int64_t floats = (work.q_heads + 2 * work.k.heads) * work.k.dim;
  parallel_for(work.tokens, token_grain(floats), [&](int64_t begin, int64_t end) {
    thread_local std::vector<float> k;
    k.resize(std::max<size_t>(k.size(), static_cast<size_t>(work.k.token_elements())));
    HWY_DYNAMIC_DISPATCH(rope_append_tokens)(work, begin, end, k.data());
  });
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
