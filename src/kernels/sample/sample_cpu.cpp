#include "kernels/sample/sample_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/counters.h"
#include "kernels/highway_targets.h"
#include "kernels/sample/row_draw.h"
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

inline constexpr uint32_t kIdFactor = 0x9E3779B1u;

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

  explicit Noise(const SampleRow& row) {
    const auto low = static_cast<uint32_t>(row.seed);
    const auto high = static_cast<uint32_t>(row.seed >> 32);
    a = mix_word(low ^ mix_word(static_cast<uint32_t>(row.output_index) * kIdFactor + 0x85EBCA77u));
    b = mix_word(high + a);
  }

  // In (0, 1), from ids times kIdFactor.
  HWY_INLINE FloatVec uniform(WordVec keys) const {
    const FloatTag d;
    const WordTag du;
    const IdTag di;
    const auto bits = mix(hn::Add(mix(hn::Xor(keys, hn::Set(du, a))), hn::Set(du, b)));
    // Both halves convert exactly; their sum rounds once.
    const auto high = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<16>(bits)));
    const auto low = hn::ConvertTo(d, hn::BitCast(di, hn::And(bits, hn::Set(du, 0xffffu))));
    const auto whole = hn::MulAdd(high, hn::Set(d, 65536.0f), hn::Add(low, hn::Set(d, 0.5f)));
    return hn::Min(hn::Mul(whole, hn::Set(d, 2.3283064365386963e-10f)), hn::Set(d, 0.99999994f));
  }

  static HWY_INLINE FloatVec gumbel(FloatVec u) {
    const FloatTag d;
    return hn::Neg(hn::Log(d, hn::Neg(hn::Log1p(d, hn::Neg(u)))));
  }

  // At least gumbel(u), within 0.07 where that is large: -log1p(-u) >= u, and a float's bits read
  // as a number are its logarithm, interpolated from below between powers of two.
  static HWY_INLINE FloatVec gumbel_bound(FloatVec u) {
    const FloatTag d;
    const auto log2 = hn::Mul(hn::ConvertTo(d, hn::BitCast(IdTag(), u)), hn::Set(d, 0x1p-23f));
    return hn::Mul(hn::Sub(hn::Set(d, 127.001f), log2), hn::Set(d, 0.6931472f));
  }
};

HWY_INLINE WordVec keys_of(hn::Vec<IdTag> ids) {
  const WordTag du;
  return hn::Mul(hn::BitCast(du, ids), hn::Set(du, kIdFactor));
}

HWY_INLINE FloatVec scaled_logits(const RowScan& row, FloatVec x) {
  const FloatTag d;
  return hn::Mul(hn::Sub(x, hn::Set(d, row.largest)), hn::Set(d, row.per_temperature));
}

// The best score of a list: logit / temperature + noise, ties by lower id.
Candidate best_score(const RowScan& row, const Noise& noise, const std::vector<Candidate>& list) {
  const FloatTag d;
  const IdTag di;
  const size_t lanes = hn::Lanes(d);
  Candidate best{kLowest, list.front().id};
  for (size_t first = 0; first < list.size(); first += lanes) {
    HWY_ALIGN float values[hn::MaxLanes(d)];
    HWY_ALIGN int32_t ids[hn::MaxLanes(d)];
    for (size_t i = 0; i < lanes; ++i) {
      const Candidate& c = list[std::min(first + i, list.size() - 1)];
      values[i] = c.value;
      ids[i] = c.id;
    }
    const auto noises = Noise::gumbel(noise.uniform(keys_of(hn::Load(di, ids))));
    hn::Store(hn::Add(scaled_logits(row, hn::Load(d, values)), noises), d, values);
    for (size_t i = 0; i < lanes; ++i) {
      if (better({values[i], ids[i]}, best)) {
        best = {values[i], ids[i]};
      }
    }
  }
  return best;
}

// The best score of block b, or `best` where that is better.
Candidate best_score_in_block(const RowScan& row, int64_t b, const Noise& noise, Candidate best) {
  const FloatTag d;
  const WordTag du;
  const IdTag di;
  const float* x = row.logits + row.block_begin(b);
  const int64_t count = row.block_size(b);
  const auto id = static_cast<int32_t>(row.block_begin(b));
  const auto lanes = static_cast<int32_t>(hn::Lanes(d));
  auto keys = keys_of(hn::Iota(di, id));
  const auto keys_step = hn::Set(du, static_cast<uint32_t>(lanes) * kIdFactor);
  auto floor = hn::Set(d, best.value);
  each_vector(x, count, [&](int64_t i, FloatVec v) {
    const auto scaled = scaled_logits(row, v);
    const auto u = noise.uniform(keys);
    keys = hn::Add(keys, keys_step);
    // Two logarithms are needed only where the token could win: seldom.
    if (hn::AllFalse(d, hn::Ge(hn::Add(scaled, Noise::gumbel_bound(u)), floor))) {
      return;
    }
    HWY_ALIGN float scores[hn::MaxLanes(d)];
    hn::Store(hn::Add(scaled, Noise::gumbel(u)), d, scores);
    for (int32_t lane = 0; lane < lanes; ++lane) {
      const Candidate next{scores[lane], id + static_cast<int32_t>(i) + lane};
      if (better(next, best)) {
        best = next;
      }
    }
    floor = hn::Set(d, best.value);
  });
  return best;
}

// Weights of what was found; their sum.
double weigh(RowDraw& draw) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const std::vector<Candidate>& list = draw.scan.all_found;
  draw.weights.resize(list.size() + lanes);
  for (size_t i = 0; i < list.size(); ++i) {
    draw.weights[i] = list[i].value;
  }
  double total = 0.0;
  for (size_t i = 0; i < list.size(); i += lanes) {
    const auto v = hn::LoadU(d, draw.weights.data() + i);
    hn::StoreU(weights_of(v, draw.scan.largest, draw.scan.per_temperature), d,
               draw.weights.data() + i);
  }
  draw.weights.resize(list.size());
  for (const float weight : draw.weights) {
    total += double{weight};
  }
  return total;
}

// Leaves the tokens of at least min_p times the best's probability.
void cut_to_min_p(RowDraw& draw) {
  std::vector<Candidate>& list = draw.scan.all_found;
  const float least = std::min(draw.row->min_p, 1.0f);
  size_t kept = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (draw.weights[i] >= least) {
      draw.weights[kept] = draw.weights[i];
      list[kept++] = list[i];
    }
  }
  list.resize(kept);
  draw.weights.resize(kept);
}

// Leaves the fewest tokens, from the best down, whose weights reach `wanted`: halves the part that
// the border is in until sorting it costs nothing.
void cut_to_mass(RowDraw& draw, double wanted) {
  struct Weighted {
    Candidate token;
    float weight;
  };
  static thread_local std::vector<Weighted> list;
  std::vector<Candidate>& found = draw.scan.all_found;
  list.clear();
  for (size_t i = 0; i < found.size(); ++i) {
    list.push_back({found[i], draw.weights[i]});
  }
  const auto order = [](const Weighted& a, const Weighted& b) { return better(a.token, b.token); };
  double mass = 0.0;
  auto begin = list.begin();
  auto end = list.end();
  while (end - begin > 32) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, order);
    double half = 0.0;
    for (auto at = begin; at != middle; ++at) {
      half += double{at->weight};
    }
    if (mass + half >= wanted) {
      end = middle;
    } else {
      mass += half;
      begin = middle;
    }
  }
  std::sort(begin, end, order);
  while (begin != end && mass < wanted) {
    mass += double{begin->weight};
    ++begin;
  }
  const auto kept = std::max<size_t>(begin - list.begin(), 1);
  found.resize(kept);
  for (size_t i = 0; i < kept; ++i) {
    found[i] = list[i].token;
  }
}

void set_bound(RowDraw& draw) {
  const double bound =
      double{draw.scan.largest} - double{draw.reach} / double{draw.scan.per_temperature};
  draw.bound = static_cast<float>(std::max(bound, -double{std::numeric_limits<float>::max()}));
}

// The first pass over block b, on the edited logits.
void scan_block(RowDraw& draw, int64_t b) {
  const std::vector<LogitEdit>& edits = draw.row->edits;
  if (!edits.empty()) {
    const auto begin = static_cast<int32_t>(draw.scan.block_begin(b));
    const auto end = begin + static_cast<int32_t>(draw.scan.block_size(b));
    std::copy(draw.raw + begin, draw.raw + end, draw.edited.data() + begin);
    auto edit = std::lower_bound(edits.begin(), edits.end(), begin,
                                 [](const LogitEdit& e, int32_t token) { return e.token < token; });
    for (; edit != edits.end() && edit->token < end; ++edit) {
      float& x = draw.edited[edit->token];
      x = (x > 0.0f ? x / edit->repetition : x * edit->repetition) + edit->add;
    }
  }
  scan_one_block(draw.scan, b);
}

// Between the passes: what has to be searched for.
void plan_row(RowDraw& draw) {
  draw.search = RowDraw::Search::none;
  draw.token = 0;
  draw.broken = !draw.scan.merge();
  if (draw.broken) {
    return;
  }
  const SampleRow& row = *draw.row;
  RowScan& scan = draw.scan;
  if (draw.has_top_k()) {
    draw.search = RowDraw::Search::list;
    draw.bound = scan.bound_of_best(row.top_k);
    return;
  }
  if (draw.has_top_p()) {
    draw.search = RowDraw::Search::list;
    draw.reach = 6.0f;
    set_bound(draw);
    return;
  }
  if (!draw.greedy() && row.min_p > 0.0f) {
    draw.search = RowDraw::Search::list;
    draw.reach = 1e-3f - std::log(std::min(row.min_p, 1.0f));  // and a little, for rounding
    set_bound(draw);
    return;
  }
  int64_t b = 0;
  while (scan.blocks[b].largest != scan.largest) {
    ++b;
  }
  draw.token =
      static_cast<int32_t>(scan.block_begin(b) + first_of(scan.logits + scan.block_begin(b),
                                                          scan.block_size(b), scan.largest));
  if (!draw.greedy()) {
    draw.search = RowDraw::Search::anybody;
    draw.score = best_score(scan, Noise(row), {{scan.largest, draw.token}});
  }
}

// The second pass over block b.
void search_block(RowDraw& draw, int64_t b) {
  if (draw.search == RowDraw::Search::list) {
    find_in_block(draw.scan, b, draw.bound);
    return;
  }
  draw.scan.found[b].assign(1, best_score_in_block(draw.scan, b, Noise(*draw.row), draw.score));
}

// After it: false where the bound was too high and the pass has to be repeated with another.
bool conclude_row(RowDraw& draw) {
  const SampleRow& row = *draw.row;
  RowScan& scan = draw.scan;
  scan.gather();
  if (draw.search == RowDraw::Search::anybody) {
    draw.token = std::min_element(scan.all_found.begin(), scan.all_found.end(), better)->id;
    return true;
  }
  if (draw.has_top_k()) {
    scan.keep_best(row.top_k);
  }
  const double mass = weigh(draw);
  if (draw.has_top_p()) {
    const double wanted = double{row.top_p} * (draw.has_top_k() ? mass : scan.mass);
    constexpr float kReachMax = 90.0f;  // nothing has a weight below
    if (mass < wanted && !draw.has_top_k() && draw.reach < kReachMax) {
      draw.reach = std::min(draw.reach * 2.0f, kReachMax);
      set_bound(draw);
      return false;
    }
    cut_to_min_p(draw);
    cut_to_mass(draw, wanted);
  } else {
    cut_to_min_p(draw);
  }
  draw.token = best_score(scan, Noise(row), scan.all_found).id;
  return true;
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pome::kernels {
namespace {

HWY_EXPORT(scan_block);
HWY_EXPORT(plan_row);
HWY_EXPORT(search_block);
HWY_EXPORT(conclude_row);

VariantCounter count_rows("sample/sample_by_row");
VariantCounter count_blocks("sample/sample_by_block");

void begin_row(const SampleWork& work, const SampleRow& row, RowDraw& draw) {
  draw.row = &row;
  draw.raw = work.logits + row.place * work.vocabulary;
  RowScan& scan = draw.scan;
  scan.count = work.vocabulary;
  scan.per_temperature =
      draw.greedy() ? 1.0f : std::min(1.0f / row.temperature, std::numeric_limits<float>::max());
  scan.wants_groups = draw.has_top_k();
  scan.wants_mass = draw.has_top_p() && !draw.has_top_k();
  if (row.edits.empty()) {
    scan.begin(draw.raw, work.vocabulary);
  } else {
    draw.edited.resize(work.vocabulary);
    scan.begin(draw.edited.data(), work.vocabulary);
  }
}

void end_row(const SampleWork& work, int64_t r, const RowDraw& draw) {
  work.tokens[r] = draw.token;
  work.broken[r] = draw.broken ? 1 : 0;
}

void sample_whole_row(const SampleWork& work, int64_t r) {
  static thread_local RowDraw draw;
  begin_row(work, work.rows[r], draw);
  for (int64_t b = 0; b < draw.scan.block_count(); ++b) {
    HWY_DYNAMIC_DISPATCH(scan_block)(draw, b);
  }
  HWY_DYNAMIC_DISPATCH(plan_row)(draw);
  bool done = draw.search == RowDraw::Search::none;
  while (!done) {
    for (int64_t b = 0; b < draw.scan.block_count(); ++b) {
      HWY_DYNAMIC_DISPATCH(search_block)(draw, b);
    }
    done = HWY_DYNAMIC_DISPATCH(conclude_row)(draw);
  }
  end_row(work, r, draw);
}

void sample_by_block(const SampleWork& work) {
  const auto rows = static_cast<int64_t>(work.rows.size());
  static thread_local std::vector<RowDraw> kept;
  std::vector<RowDraw>& draws = kept;  // this thread's, for the workers too
  draws.resize(std::max(draws.size(), work.rows.size()));
  std::vector<RowDraw*> open;
  for (int64_t r = 0; r < rows; ++r) {
    begin_row(work, work.rows[r], draws[r]);
    open.push_back(&draws[r]);
  }
  const int64_t blocks = draws[0].scan.block_count();
  parallel_for(rows * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      HWY_DYNAMIC_DISPATCH(scan_block)(*open[i / blocks], i % blocks);
    }
  });
  for (RowDraw* draw : open) {
    HWY_DYNAMIC_DISPATCH(plan_row)(*draw);
  }
  std::erase_if(open, [](const RowDraw* draw) { return draw->search == RowDraw::Search::none; });
  while (!open.empty()) {
    parallel_for(static_cast<int64_t>(open.size()) * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        HWY_DYNAMIC_DISPATCH(search_block)(*open[i / blocks], i % blocks);
      }
    });
    std::erase_if(open, [](RowDraw* draw) { return HWY_DYNAMIC_DISPATCH(conclude_row)(*draw); });
  }
  for (int64_t r = 0; r < rows; ++r) {
    end_row(work, r, draws[r]);
  }
}

}  // namespace

void run_sample(const SampleWork& work) {
  const auto rows = static_cast<int64_t>(work.rows.size());
  if (rows < kRowsAsUnits) {
    count_blocks.add();
    sample_by_block(work);
    return;
  }
  count_rows.add();
  parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      sample_whole_row(work, r);
    }
  });
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
