#include "kernels/sample/sample_cpu.h"

#include <algorithm>
#include <vector>

#include "kernels/counters.h"
#include "kernels/highway_targets.h"
#include "kernels/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sample/sample_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/sample/scan_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

using WordTag = hn::RebindToUnsigned<FloatTag>;
using WordVec = hn::Vec<WordTag>;
using IdTag = hn::RebindToSigned<FloatTag>;

HWY_INLINE WordVec mix(WordVec h) {
  const WordTag d;
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, 0x85ebca6bu));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), hn::Set(d, 0xc2b2ae35u));
  return hn::Xor(h, hn::ShiftRight<16>(h));
}

uint32_t mix_word(uint32_t h) {
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

// The noise of one row: noise_bits() of sample.h on vectors of ids, and its Gumbel transform.
struct Noise {
  uint32_t a;
  uint32_t b;

  Noise(const uint32_t* seed, int32_t index) {
    a = mix_word(seed[0] ^ mix_word(static_cast<uint32_t>(index) * 0x9E3779B1u + 0x85EBCA77u));
    b = mix_word(seed[1] + a);
  }

  HWY_INLINE FloatVec gumbel(WordVec ids) const {
    const FloatTag d;
    const WordTag du;
    const IdTag di;
    const auto keyed = hn::Xor(hn::Mul(ids, hn::Set(du, 0x9E3779B1u)), hn::Set(du, a));
    const auto bits = mix(hn::Add(mix(keyed), hn::Set(du, b)));
    // Both halves convert exactly; their sum rounds once.
    const auto high = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<16>(bits)));
    const auto low = hn::ConvertTo(d, hn::BitCast(di, hn::And(bits, hn::Set(du, 0xffffu))));
    const auto whole = hn::MulAdd(high, hn::Set(d, 65536.0f), hn::Add(low, hn::Set(d, 0.5f)));
    const auto u =
        hn::Min(hn::Mul(whole, hn::Set(d, 2.3283064365386963e-10f)), hn::Set(d, 0.99999994f));
    return hn::Neg(hn::Log(d, hn::Neg(hn::Log1p(d, hn::Neg(u)))));
  }
};

// -log(-log1p(-u)) of the smallest u, rounded up.
inline constexpr float kNoiseMax = 23.0f;

// One row while it is sampled. scaled(x) = (x - largest) / temperature, so the best token has 0 and
// weight 1.
struct Row {
  const float* logits;
  int64_t count;
  float largest;
  float temperature;

  HWY_INLINE FloatVec scaled(FloatVec v) const {
    const FloatTag d;
    return hn::Div(hn::Sub(clean(v), hn::Set(d, largest)), hn::Set(d, temperature));
  }
};

// What is left after the filters: every token whose weight is at least `weight_min`, and those
// listed.
struct Kept {
  float weight_min = 0.0f;
  std::vector<Candidate> listed;  // value is the logit
  bool only_listed = false;
};

// Weights e^scaled of all tokens, and their sum.
double fill_weights(const Row& row, std::vector<float>& weights) {
  const FloatTag d;
  weights.resize(row.count + hn::Lanes(d));
  double total = 0.0;
  auto sum = hn::Zero(d);
  each_vector(row.logits, row.count, kLowest, [&](int64_t first, FloatVec v) {
    const auto weight = fast_exp(d, row.scaled(v));
    hn::StoreU(weight, d, weights.data() + first);
    sum = hn::Add(sum, weight);
    if (first % 4096 == 0) {
      total += double{sum_lanes(d, sum)};
      sum = hn::Zero(d);
    }
  });
  return total + double{sum_lanes(d, sum)};
}

// The sum of the weights from `least` up.
double mass_from(const std::vector<float>& weights, int64_t count, float least) {
  const FloatTag d;
  double total = 0.0;
  constexpr int64_t kRun = 4096;
  for (int64_t first = 0; first < count; first += kRun) {
    auto sum = hn::Zero(d);
    each_vector(weights.data() + first, std::min(kRun, count - first), -1.0f,
                [&](int64_t, FloatVec w) {
                  sum = hn::Add(sum, hn::IfThenElseZero(hn::Ge(w, hn::Set(d, least)), w));
                });
    total += double{sum_lanes(d, sum)};
  }
  return total;
}

// Tokens with a weight in [least, below), best first.
void list_between(const Row& row, const std::vector<float>& weights, float least, float below,
                  std::vector<Candidate>& out) {
  const FloatTag d;
  out.clear();
  each_vector(weights.data(), row.count, -1.0f, [&](int64_t first, FloatVec w) {
    const auto in = hn::And(hn::Ge(w, hn::Set(d, least)), hn::Lt(w, hn::Set(d, below)));
    if (hn::AllFalse(d, in)) {
      return;
    }
    const auto end = std::min<int64_t>(first + static_cast<int64_t>(hn::Lanes(d)), row.count);
    for (int64_t i = first; i < end; ++i) {
      if (weights[i] >= least && weights[i] < below) {
        out.push_back({row.logits[i], static_cast<int32_t>(i)});
      }
    }
  });
  std::sort(out.begin(), out.end(), better);
}

// Cuts a list, best first, to the fewest whose weights reach `wanted` on top of `mass`.
void cut_to_mass(const std::vector<double>& weights, double mass, double wanted,
                 std::vector<Candidate>& list) {
  size_t kept = 0;
  while (kept < list.size() && mass < wanted) {
    mass += weights[kept++];
  }
  list.resize(kept);
}

std::vector<double> weights_of(const Row& row, const std::vector<Candidate>& list) {
  const hn::CappedTag<float, 1> d;
  std::vector<double> weights;
  for (const Candidate& c : list) {
    const float scaled = (c.value - row.largest) / row.temperature;
    weights.push_back(double{hn::GetLane(fast_exp(d, hn::Set(d, scaled)))});
  }
  return weights;
}

// top-p without top-k over the whole vocabulary: the weight at the border by bisection, then the
// few tokens around it in order.
void keep_mass(const Row& row, float top_p, std::vector<float>& weights, Kept& kept) {
  const double wanted = double{top_p} * fill_weights(row, weights);
  float below = 1.0f;  // the mass from here up is less than wanted, unless the best alone reach it
  float least = 0.0f;  // the mass from here up is enough
  if (mass_from(weights, row.count, 1.0f) >= wanted) {
    least = 1.0f;
    below = 2.0f;
  }
  // Weights span many orders of magnitude, so the border is bracketed by factors first.
  while (least < 1.0f && below > least * 1.002f) {
    const float middle =
        least < 1e-30f ? below * 1e-3f
                       : (below > 4.0f * least ? std::sqrt(least * below) : 0.5f * (least + below));
    if (middle <= least || middle >= below || middle < 1e-37f) {
      break;
    }
    (mass_from(weights, row.count, middle) >= wanted ? least : below) = middle;
  }
  list_between(row, weights, least, below, kept.listed);
  cut_to_mass(weights_of(row, kept.listed), mass_from(weights, row.count, below), wanted,
              kept.listed);
  kept.weight_min = below;
}

// The draw among a list.
int32_t draw_listed(const Row& row, const Noise& noise, const std::vector<Candidate>& list) {
  const FloatTag d;
  const IdTag di;
  const size_t lanes = hn::Lanes(d);
  Candidate best{kLowest, list.empty() ? 0 : list.front().id};
  for (size_t first = 0; first < list.size(); first += lanes) {
    HWY_ALIGN float values[hn::MaxLanes(d)];
    HWY_ALIGN int32_t ids[hn::MaxLanes(d)];
    for (size_t i = 0; i < lanes; ++i) {
      const Candidate& c = list[std::min(first + i, list.size() - 1)];
      values[i] = c.value;
      ids[i] = c.id;
    }
    const auto words = hn::BitCast(WordTag(), hn::Load(di, ids));
    hn::Store(hn::Add(row.scaled(hn::Load(d, values)), noise.gumbel(words)), d, values);
    for (size_t i = 0; i < lanes; ++i) {
      if (better({values[i], ids[i]}, best)) {
        best = {values[i], ids[i]};
      }
    }
  }
  return best.id;
}

// The draw among every token from a weight up.
Candidate draw_from_weight(const Row& row, const Noise& noise, float weight_min) {
  const FloatTag d;
  const IdTag di;
  Candidate best{kLowest, -1};
  each_vector(row.logits, row.count, kLowest, [&](int64_t first, FloatVec v) {
    const auto scaled = row.scaled(v);
    // No noise exceeds kNoiseMax: most of a vocabulary cannot win any more.
    auto in = hn::Gt(scaled, hn::Set(d, std::max(best.value - kNoiseMax, kLowest)));
    if (weight_min > 0.0f) {
      in = hn::And(in, hn::Ge(fast_exp(d, scaled), hn::Set(d, weight_min)));
    }
    if (hn::AllFalse(d, in)) {
      return;
    }
    const auto ids = hn::BitCast(WordTag(), hn::Iota(di, static_cast<int32_t>(first)));
    const auto score = hn::IfThenElse(in, hn::Add(scaled, noise.gumbel(ids)), hn::Set(d, kLowest));
    if (hn::AllFalse(d, hn::Gt(score, hn::Set(d, best.value)))) {
      return;
    }
    HWY_ALIGN float scores[hn::MaxLanes(d)];
    hn::Store(score, d, scores);
    for (size_t i = 0; i < hn::Lanes(d); ++i) {
      if (scores[i] > best.value) {
        best = {scores[i], static_cast<int32_t>(first) + static_cast<int32_t>(i)};
      }
    }
  });
  return best;
}

// top-k, then top-p and min-p among those.
void keep_best(const Row& row, int64_t k, float top_p, float min_p, Kept& kept) {
  largest_k(row.logits, row.count, k, kept.listed);
  const std::vector<double> weights = weights_of(row, kept.listed);
  if (top_p < 1.0f) {
    double total = 0.0;
    for (const double weight : weights) {
      total += weight;
    }
    cut_to_mass(weights, 0.0, double{top_p} * total, kept.listed);
  }
  size_t left = kept.listed.size();
  while (left > 1 && weights[left - 1] < double{min_p}) {
    --left;
  }
  kept.listed.resize(std::max<size_t>(left, 1));
  kept.only_listed = true;
}

int32_t draw(const Row& row, const Noise& noise, const Kept& kept) {
  if (kept.only_listed) {
    return draw_listed(row, noise, kept.listed);
  }
  const Candidate best = draw_from_weight(row, noise, kept.weight_min);
  if (kept.listed.empty()) {
    return std::max(best.id, 0);
  }
  std::vector<Candidate> both = kept.listed;
  if (best.id >= 0) {
    both.push_back({row.logits[best.id], best.id});
  }
  return draw_listed(row, noise, both);
}

int32_t sample_row(const SampleWork& work, int64_t r) {
  Row row{work.logits + r * work.vocabulary, work.vocabulary, 0.0f, work.temperature[r]};
  row.largest = largest_of(row.logits, row.count);
  const bool drawn = row.temperature > 0.0f && std::isfinite(row.largest);
  if (!drawn || work.top_k[r] == 1) {
    return first_of(row.logits, row.count, row.largest);
  }
  const Noise noise(work.seed + 2 * r, work.output_index[r]);
  const float top_p = work.top_p[r];
  const float min_p = work.min_p[r];
  Kept kept;
  kept.weight_min = std::min(min_p, 1.0f);
  if (work.top_k[r] > 0 && work.top_k[r] < row.count) {
    keep_best(row, work.top_k[r], top_p, kept.weight_min, kept);
  } else if (top_p < 1.0f) {
    static thread_local std::vector<float> weights;
    keep_mass(row, top_p, weights, kept);
    // min-p only raises the border.
    const float border = std::min(min_p, 1.0f);
    const std::vector<double> listed = weights_of(row, kept.listed);
    size_t left = kept.listed.size();
    while (left > 0 && listed[left - 1] < double{border}) {
      --left;
    }
    kept.listed.resize(left);
    kept.weight_min = std::max(kept.weight_min, border);
  }
  return draw(row, noise, kept);
}

float logsumexp_row(const float* row, int64_t count) {
  const float largest = largest_of(row, count);
  if (!std::isfinite(largest)) {
    return largest;
  }
  return static_cast<float>(double{largest} + std::log(sum_exp(row, count, largest)));
}

void top_logprobs_row(const float* row, int64_t count, int64_t k, float* values, int32_t* ids) {
  static thread_local std::vector<Candidate> best;
  largest_k(row, count, k, best);
  const float total = logsumexp_row(row, count);
  for (int64_t i = 0; i < k; ++i) {
    values[i] = best[i].value - total;
    ids[i] = best[i].id;
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pome::kernels {
namespace {

HWY_EXPORT(sample_row);
HWY_EXPORT(logsumexp_row);
HWY_EXPORT(top_logprobs_row);

VariantCounter count_sample("sample/sample");
VariantCounter count_logsumexp("sample/row_logsumexp");
VariantCounter count_top("sample/logprobs_top_k");

}  // namespace

void run_sample(const SampleWork& work) {
  count_sample.add();
  parallel_for(work.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      work.tokens[r] = HWY_DYNAMIC_DISPATCH(sample_row)(work, r);
    }
  });
}

void run_row_logsumexp(const float* logits, int64_t rows, int64_t vocabulary, float* out) {
  count_logsumexp.add();
  parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      out[r] = HWY_DYNAMIC_DISPATCH(logsumexp_row)(logits + r * vocabulary, vocabulary);
    }
  });
}

void run_top_logprobs(const float* logits, int64_t rows, int64_t vocabulary, int64_t k,
                      float* values, int32_t* ids) {
  count_top.add();
  parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(top_logprobs_row)
      (logits + r * vocabulary, vocabulary, k, values + r * k, ids + r * k);
    }
  });
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
