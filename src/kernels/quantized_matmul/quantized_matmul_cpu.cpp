#include "kernels/quantized_matmul/quantized_matmul_cpu.h"

#include <algorithm>
#include <vector>

#include "kernels/counters.h"
#include "kernels/quantized_matmul/dot/quantized_input.h"
#include "kernels/thread_pool.h"

#include "kernels/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantized_matmul/quantized_matmul_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/activation/activation_inl.h"
#include "kernels/quantized_matmul/dot/dot_inl.h"
#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// Scales or biases of 16 / L output rows from `lane` on.
HWY_INLINE FloatVec load_factors(const PanelStorage& w, const uint8_t* run, int64_t group,
                                 size_t lane) {
  const FloatTag d;
  const size_t index = static_cast<size_t>(group * kPanelRows) + lane;
  if (w.wide_scales) {
    return load_as_float(d, reinterpret_cast<const float*>(run) + index);
  }
  return load_as_float(d, reinterpret_cast<const hwy::float16_t*>(run) + index);
}

// One weight group's sum for one row joins the row's f32 total.
HWY_INLINE FloatVec add_group(const PanelStorage& w, const IntVec exact, FloatVec total,
                              FloatVec scale, FloatVec bias, float x_scale, int32_t x_sum,
                              float x_weighted) {
  const FloatTag d;
  const IntTag di;
  if (w.stored_biases) {
    total = hn::MulAdd(bias, hn::Set(d, x_weighted), total);
    return hn::MulAdd(hn::ConvertTo(d, exact), hn::Mul(scale, hn::Set(d, x_scale)), total);
  }
  const IntVec centred = hn::Sub(exact, hn::Set(di, w.zero_point() * x_sum));
  return hn::MulAdd(hn::ConvertTo(d, centred), hn::Mul(scale, hn::Set(d, x_scale)), total);
}

// A quad of columns joins the sums of every row; codes(v) are those of vector v.
template <class Dot, int kRows, int kVectors, class Codes>
HWY_INLINE void add_quad(typename Dot::Sum (&sums)[kRows][kVectors], Codes codes,
                         const GroupInput* x, int64_t x_stride, int quad) {
  decltype(codes(0)) unpacked[kVectors];
  POME_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    unpacked[v] = codes(v);
  }
  POME_UNROLL
  for (int r = 0; r < kRows; ++r) {
    POME_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = Dot::add(sums[r][v], unpacked[v], x[r * x_stride], quad);
    }
  }
}

// A processor's own prefetching starts anew with each panel, so weights that come from memory are
// asked for so many bytes ahead: a whole panel or two, in any product of a language model.
constexpr int64_t kAheadBytes = 8 << 10;

// The codes of a group and its scales, kAheadBytes further on.
template <int kBits>
HWY_INLINE void ask_ahead(const uint8_t* group) {
  POME_UNROLL
  for (int line = 0; line <= kBits; ++line) {
    hwy::Prefetch(group + kAheadBytes + line * 64);
  }
}

// Blocks [begin, end) of a group's codes: a quad of columns each, or two of 4 bits.
template <class Dot, int kBits, int kRows, int kVectors>
HWY_INLINE void add_blocks(typename Dot::Sum (&sums)[kRows][kVectors], const uint8_t* codes,
                           const GroupInput* x, int64_t x_stride, int begin, int end) {
  POME_UNROLL
  for (int b = begin; b < end; ++b) {
    const auto block = [&](int v) {
      return hn::LoadU(CodeTag(),
                       codes + b * 64 + static_cast<size_t>(v) * hn::Lanes(FloatTag()) * 4);
    };
    if constexpr (kBits == 4) {
      add_quad<Dot, kRows, kVectors>(
          sums, [&](int v) { return Dot::low_codes(block(v)); }, x, x_stride, 2 * b);
      add_quad<Dot, kRows, kVectors>(
          sums, [&](int v) { return Dot::high_codes(block(v)); }, x, x_stride, 2 * b + 1);
    } else {
      add_quad<Dot, kRows, kVectors>(
          sums, [&](int v) { return Dot::codes(block(v)); }, x, x_stride, b);
    }
  }
}

// kVectors vectors of output lanes, from `lane` on, of a panel for kRows rows of x: out[r][lane …].
// kHalves: a weight group is half an activation group (16 columns).
template <class Dot, int kBits, bool kHalves, int kRows, int kVectors>
HWY_INLINE void panel_lanes(const PanelStorage& w, const uint8_t* panel, const GroupInput* x,
                            int64_t x_stride, size_t lane, bool ahead, float (*out)[kPanelRows]) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const int64_t groups = w.padded_columns / kActivationGroup;
  const int64_t group_bytes = groups > 0 ? w.panel_bytes / groups : 0;
  const int shift = w.group_size == 128 ? 2 : (w.group_size == 64 ? 1 : 0);
  const uint8_t* scales = panel + w.scales_offset;
  const uint8_t* biases = panel + w.biases_offset;
  FloatVec totals[kRows][kVectors];
  POME_UNROLL
  for (int i = 0; i < kRows * kVectors; ++i) {
    totals[i / kVectors][i % kVectors] = hn::Zero(d);
  }
  for (int64_t g = 0; g < groups; ++g) {
    const uint8_t* codes = panel + g * (kBits * 64) + lane * 4;
    if (ahead) {
      ask_ahead<kBits>(panel + g * group_bytes);
    }
    constexpr int kParts = kHalves ? 2 : 1;
    for (int part = 0; part < kParts; ++part) {
      typename Dot::Sum sums[kRows][kVectors];
      POME_UNROLL
      for (int i = 0; i < kRows * kVectors; ++i) {
        sums[i / kVectors][i % kVectors] = Dot::zero();
      }
      constexpr int kBlocks = kBits / kParts;
      add_blocks<Dot, kBits, kRows, kVectors>(sums, codes, x + g, x_stride, part * kBlocks,
                                              (part + 1) * kBlocks);
      const int64_t factor = kHalves ? 2 * g + part : g >> shift;
      POME_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const size_t at = lane + static_cast<size_t>(v) * lanes;
        const FloatVec scale = load_factors(w, scales, factor, at);
        const FloatVec bias = w.stored_biases ? load_factors(w, biases, factor, at) : hn::Zero(d);
        POME_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const GroupInput& in = x[r * x_stride + g];
          totals[r][v] = add_group(w, Dot::total(sums[r][v]), totals[r][v], scale, bias, in.scale,
                                   kHalves ? in.half_sums[part] : in.sum,
                                   kHalves ? in.half_weighted[part] : in.weighted);
        }
      }
    }
  }
  POME_UNROLL
  for (int r = 0; r < kRows; ++r) {
    POME_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(totals[r][v], d, out[r] + lane + static_cast<size_t>(v) * lanes);
    }
  }
}

using PanelFunction = void (*)(const PanelStorage&, const uint8_t*, const GroupInput*, int64_t,
                               bool, float (*)[kPanelRows]);

template <class Dot, int kBits, bool kHalves, int kRows>
void panel_rows(const PanelStorage& w, const uint8_t* panel, const GroupInput* x, int64_t x_stride,
                bool ahead, float (*out)[kPanelRows]) {
  const size_t lanes = hn::Lanes(FloatTag()) * Dot::kVectors;
  for (size_t lane = 0; lane < kPanelRows; lane += lanes) {
    panel_lanes<Dot, kBits, kHalves, kRows, Dot::kVectors>(w, panel, x, x_stride, lane,
                                                           ahead && lane == 0, out);
  }
}

// By log2 of the rows in a tile.
struct PanelFunctions {
  PanelFunction by_rows[4];
};

template <class Dot, int kBits, bool kHalves>
PanelFunctions panel_functions() {
  return {{panel_rows<Dot, kBits, kHalves, 1>, panel_rows<Dot, kBits, kHalves, 2>,
           panel_rows<Dot, kBits, kHalves, 4>, panel_rows<Dot, kBits, kHalves, Dot::kRowsMax>}};
}

template <class Dot>
PanelFunctions choose_functions(const PanelStorage& w) {
  if (w.group_size == 16) {
    return w.bits == 4 ? panel_functions<Dot, 4, true>() : panel_functions<Dot, 8, true>();
  }
  return w.bits == 4 ? panel_functions<Dot, 4, false>() : panel_functions<Dot, 8, false>();
}

// Bias, activation and the columns past N, from a tile of sums to the output.
HWY_INLINE void store_tile(const QuantizedProduct& p, int64_t panel, int64_t first_row, int rows,
                           float (*tile)[kPanelRows], float (*up)[kPanelRows]) {
  const FloatTag d;
  const int64_t width = p.gated ? p.w->rows / 2 : p.w->rows;
  const int64_t column = panel * kPanelRows;
  const auto count = static_cast<size_t>(std::min<int64_t>(kPanelRows, width - column));
  for (int r = 0; r < rows; ++r) {
    float* out = p.out + (first_row + r) * width + column;
    for (size_t lane = 0; lane < count; lane += hn::Lanes(d)) {
      FloatVec value = hn::LoadU(d, tile[r] + lane);
      if (p.gated) {
        value = gated_lanes(d, value, hn::LoadU(d, up[r] + lane), p.activation);
      }
      const size_t left = count - lane;
      if (left >= hn::Lanes(d)) {
        if (p.bias != nullptr) {
          value = hn::Add(value, hn::LoadU(d, p.bias + column + lane));
        }
        hn::StoreU(value, d, out + lane);
      } else {
        if (p.bias != nullptr) {
          value = hn::Add(value, load_tail(d, p.bias + column + lane, left));
        }
        store_tail(d, value, out + lane, left);
      }
    }
  }
}

// Panels [begin, end) of rows [first, first + rows), whose quantized inputs start at x.
void product_panels(const QuantizedProduct& p, bool dot_product, const GroupInput* x, int64_t first,
                    int64_t rows, int64_t begin, int64_t end) {
  const PanelFunctions functions =
      dot_product ? choose_functions<BestDot>(*p.w) : choose_functions<PairDot>(*p.w);
  const int64_t rows_max = dot_product ? BestDot::kRowsMax : PairDot::kRowsMax;
  const int64_t groups = p.w->padded_columns / kActivationGroup;
  HWY_ALIGN float tile[8][kPanelRows];
  HWY_ALIGN float up[8][kPanelRows];
  // A tile's inputs stay in the first-level cache while a few panels pass by.
  const int64_t together = std::clamp<int64_t>((24 << 10) / p.w->panel_bytes, 1, 8);
  for (int64_t first_panel = begin; first_panel < end; first_panel += together) {
    const int64_t last_panel = std::min(first_panel + together, end);
    for (int64_t r = 0; r < rows;) {
      const int64_t left = rows - r;
      const int size = left >= rows_max ? 3 : (left >= 4 ? 2 : (left >= 2 ? 1 : 0));
      const int count = static_cast<int>(size == 3 ? rows_max : int64_t{1} << size);
      const GroupInput* in = x + r * groups;
      for (int64_t panel = first_panel; panel < last_panel; ++panel) {
        const bool ahead = r == 0;
        functions.by_rows[size](*p.w, p.w->panel(panel), in, groups, ahead, tile);
        if (p.gated) {
          functions.by_rows[size](*p.w, p.w->panel(panel + p.w->panels() / 2), in, groups, ahead,
                                  up);
        }
        store_tile(p, panel, first + r, count, tile, up);
      }
      r += count;
    }
  }
}

void quantize_rows(const float* x, int64_t columns, bool dot_product, int64_t rows,
                   GroupInput* out) {
  const int64_t groups = (columns + kActivationGroup - 1) / kActivationGroup;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t g = 0; g < groups; ++g) {
      const float* from = x + r * columns + g * kActivationGroup;
      GroupInput& to = out[r * groups + g];
      const int64_t left = columns - g * kActivationGroup;
      HWY_ALIGN float padded[kActivationGroup];
      if (left < kActivationGroup) {
        std::fill(padded, padded + kActivationGroup, 0.0f);
        std::copy(from, from + left, padded);
        from = padded;
      }
      if (dot_product) {
        BestDot::quantize(from, to);
      } else {
        PairDot::quantize(from, to);
      }
    }
  }
}

bool has_dot_product() {
  return BestDot::supported();
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pome::kernels {
namespace {

HWY_EXPORT(product_panels);
HWY_EXPORT(quantize_rows);
HWY_EXPORT(has_dot_product);

VariantCounter count_rows_one("quantized_matmul/rows_1");
VariantCounter count_rows_few("quantized_matmul/rows_2_to_7");
VariantCounter count_rows_tile("quantized_matmul/rows_8_or_more");
VariantCounter count_dot("quantized_matmul/int8_dot_product");
VariantCounter count_pairs("quantized_matmul/int16_pairs");

void count_variant(int64_t rows, bool dot_product) {
  (rows == 1 ? count_rows_one : (rows < 8 ? count_rows_few : count_rows_tile)).add();
  (dot_product ? count_dot : count_pairs).add();
}

// Rows whose quantized inputs stay in the second-level cache together.
int64_t rows_of_block(int64_t groups) {
  constexpr int64_t kBytes = 1 << 20;
  const int64_t rows = kBytes / (groups * static_cast<int64_t>(sizeof(GroupInput)));
  return std::clamp<int64_t>(rows / 8 * 8, 8, 256);
}

// Few rows read their weights from memory, so a range is long enough to be asked for ahead, and
// there are enough of them for the threads to share evenly. Many rows want a few panels that pass
// by together, and a range is worth claiming from 16 KiB of codes, counted once for each tile of
// rows.
int64_t panels_of_range(const PanelStorage& w, int64_t panels, int64_t rows) {
  constexpr int64_t kBytes = 16 << 10;
  constexpr int64_t kBytesMax = 128 << 10;
  constexpr int64_t kRanges = 8;
  constexpr int64_t kFewRows = 32;
  const int64_t bytes = w.panel_bytes * ((rows + 7) / 8);
  if (rows > kFewRows) {
    return std::max<int64_t>(4, kBytes / bytes);
  }
  const int64_t wanted = std::clamp(panels * bytes / kRanges, kBytes, kBytesMax);
  return std::max<int64_t>(1, wanted / bytes);
}

}  // namespace

void run_quantized_product(const QuantizedProduct& p) {
  thread_local std::vector<GroupInput> scratch;
  const bool dot_product = HWY_DYNAMIC_DISPATCH(has_dot_product)();
  const int64_t groups = p.w->padded_columns / kActivationGroup;
  const int64_t block = rows_of_block(groups);
  const int64_t panels = p.gated ? p.w->panels() / 2 : p.w->panels();
  count_variant(p.rows, dot_product);
  for (int64_t first = 0; first < p.rows; first += block) {
    const int64_t rows = std::min(block, p.rows - first);
    if (static_cast<int64_t>(scratch.size()) < rows * groups) {
      scratch.resize(rows * groups);
    }
    GroupInput* inputs = scratch.data();
    const float* x = p.x + first * p.w->columns;
    parallel_for(rows, std::max<int64_t>(2, 256 / groups), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(quantize_rows)
      (x + begin * p.w->columns, p.w->columns, dot_product, end - begin, inputs + begin * groups);
    });
    parallel_for(panels, panels_of_range(*p.w, panels, rows), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(product_panels)(p, dot_product, inputs, first, rows, begin, end);
    });
  }
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
