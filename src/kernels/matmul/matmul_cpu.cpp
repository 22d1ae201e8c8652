#include "kernels/matmul/matmul_cpu.h"

#include <algorithm>

#include "kernels/counters.h"
#include "kernels/highway_targets.h"
#include "kernels/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/matmul_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// Rows of x that share loaded weights: as many sums as the registers hold.
inline constexpr int kTileRows = HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3 ? 2 : 4;

// kX rows of x against kW rows of w (a multiple of 4): sums[i][j] = x[i] · w[j]. Each product has
// one running vector over the columns, so it is the same number in every tile.
template <int kX, int kW, typename T>
HWY_INLINE void dot_tile(const float* const* x, const T* const* w, int64_t columns,
                         float (*sums)[kW]) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec totals[kX][kW];
  POME_UNROLL
  for (int i = 0; i < kX; ++i) {
    POME_UNROLL
    for (int j = 0; j < kW; ++j) {
      totals[i][j] = hn::Zero(d);
    }
  }
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    FloatVec weights[kW];
    POME_UNROLL
    for (int j = 0; j < kW; ++j) {
      weights[j] = load_as_float(d, w[j] + c);
    }
    POME_UNROLL
    for (int i = 0; i < kX; ++i) {
      const FloatVec input = hn::LoadU(d, x[i] + c);
      POME_UNROLL
      for (int j = 0; j < kW; ++j) {
        totals[i][j] = hn::MulAdd(input, weights[j], totals[i][j]);
      }
    }
  }
  if (c < columns) {
    const auto left = static_cast<size_t>(columns - c);
    POME_UNROLL
    for (int j = 0; j < kW; ++j) {
      const FloatVec weights = load_as_float_tail(d, w[j] + c, left);
      POME_UNROLL
      for (int i = 0; i < kX; ++i) {
        totals[i][j] = hn::MulAdd(load_tail(d, x[i] + c, left), weights, totals[i][j]);
      }
    }
  }
  POME_UNROLL
  for (int i = 0; i < kX; ++i) {
    POME_UNROLL
    for (int j = 0; j < kW; j += 4) {
      const FloatVec four[4] = {totals[i][j], totals[i][j + 1], totals[i][j + 2], totals[i][j + 3]};
      store_sums(four, sums[i] + j);
    }
  }
}

// Features [first, first + kW) for kX tokens from `token` on; features past the last are computed
// and dropped.
template <int kX, int kW, typename T>
HWY_NOINLINE void product_tile(const DenseProduct& p, int64_t token, int64_t first) {
  const float* x[kX];
  const T* w[kW];
  for (int i = 0; i < kX; ++i) {
    x[i] = p.x + (token + i) * p.columns;
  }
  for (int j = 0; j < kW; ++j) {
    w[j] = static_cast<const T*>(p.w) + std::min(first + j, p.features - 1) * p.columns;
  }
  HWY_ALIGN float sums[kX][kW];
  dot_tile<kX, kW, T>(x, w, p.columns, sums);
  const int64_t count = std::min<int64_t>(kW, p.features - first);
  for (int i = 0; i < kX; ++i) {
    float* out = p.out + (token + i) * p.features + first;
    for (int64_t j = 0; j < count; ++j) {
      out[j] = p.bias != nullptr ? sums[i][j] + p.bias[first + j] : sums[i][j];
    }
  }
}

template <typename T>
void product_features(const DenseProduct& p, int64_t first_token, int64_t last_token, int64_t begin,
                      int64_t end) {
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t first = unit * 8;
    int64_t token = first_token;
    for (; token + kTileRows <= last_token; token += kTileRows) {
      product_tile<kTileRows, 4, T>(p, token, first);
      if (first + 4 < p.features) {
        product_tile<kTileRows, 4, T>(p, token, first + 4);
      }
    }
    for (; token < last_token; ++token) {
      product_tile<1, 8, T>(p, token, first);
    }
  }
}

// Units of eight features [begin, end) for tokens [first_token, last_token).
void product_units(const DenseProduct& p, int64_t first_token, int64_t last_token, int64_t begin,
                   int64_t end) {
  switch (p.type) {
    case WeightType::f32:
      return product_features<float>(p, first_token, last_token, begin, end);
    case WeightType::f16:
      return product_features<hwy::float16_t>(p, first_token, last_token, begin, end);
    case WeightType::bf16:
      return product_features<hwy::bfloat16_t>(p, first_token, last_token, begin, end);
  }
}

template <typename T>
void copy_row(const T* from, int64_t columns, float* to) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    hn::StoreU(load_as_float(d, from + c), d, to + c);
  }
  if (c < columns) {
    const auto left = static_cast<size_t>(columns - c);
    store_tail(d, load_as_float_tail(d, from + c, left), to + c, left);
  }
}

void matrix_row(const void* w, WeightType type, int64_t row, int64_t columns, float* to) {
  const int64_t at = row * columns;
  switch (type) {
    case WeightType::f32:
      return copy_row(static_cast<const float*>(w) + at, columns, to);
    case WeightType::f16:
      return copy_row(static_cast<const hwy::float16_t*>(w) + at, columns, to);
    case WeightType::bf16:
      return copy_row(static_cast<const hwy::bfloat16_t*>(w) + at, columns, to);
  }
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pome::kernels {
namespace {

HWY_EXPORT(product_units);
HWY_EXPORT(matrix_row);

VariantCounter count_single("matmul/rows_1_to_3");
VariantCounter count_tiles("matmul/rows_4_or_more");

}  // namespace

void run_dense_product(const DenseProduct& p) {
  (p.tokens < 4 ? count_single : count_tiles).add();
  // Tokens whose inputs stay in the second-level cache together, and features worth claiming at
  // once.
  const int64_t row_bytes = std::max<int64_t>(1, p.columns * 4);
  const int64_t block = std::clamp<int64_t>((int64_t{1} << 20) / row_bytes / 4 * 4, 4, 256);
  for (int64_t first = 0; first < p.tokens; first += block) {
    const int64_t last = std::min(first + block, p.tokens);
    const int64_t grain =
        std::max<int64_t>(1, (int64_t{32} << 10) / (row_bytes * 8 * ((last - first + 3) / 4)));
    parallel_for((p.features + 7) / 8, grain, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(product_units)(p, first, last, begin, end);
    });
  }
}

void run_matrix_rows(const void* w, WeightType type, int64_t rows, int64_t columns,
                     const int32_t* ids, int64_t count, float* out) {
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* to = out + i * columns;
      if (ids[i] >= 0 && ids[i] < rows) {
        HWY_DYNAMIC_DISPATCH(matrix_row)(w, type, ids[i], columns, to);
      } else {
        std::fill(to, to + columns, 0.0f);
      }
    }
  });
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
