#include "kernels/quantized_matmul/quantized_panels.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "kernels/quantized_matmul/panel_storage.h"
#include "kernels/thread_pool.h"

namespace pome::kernels {
namespace {

constexpr int64_t kQuad = 4;
constexpr int64_t kBlockBytes = 64;

void check_source(const PanelSource& s) {
  const bool group_known =
      s.group_size == 16 || s.group_size == 32 || s.group_size == 64 || s.group_size == 128;
  if ((s.bits != 4 && s.bits != 8) || !group_known || s.rows < 1 || s.columns < 1 ||
      s.columns % s.group_size != 0) {
    throw std::invalid_argument(fmt::format(
        "[pack_panels] expected bits 4 or 8, group size 16, 32, 64 or 128 and columns a multiple "
        "of it, got {} bits, groups of {}, {} x {}",
        s.bits, s.group_size, s.rows, s.columns));
  }
}

// Sixteen rows of a source before they are interleaved.
struct PanelRowsBuffer {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> biases;

  explicit PanelRowsBuffer(const PanelStorage& s)
      : codes(kPanelRows * s.padded_columns),
        scales(kPanelRows * s.groups()),
        biases(scales.size()) {}

  void fill(const PanelSource& source, const PanelStorage& s, int64_t panel) {
    const int64_t groups = source.columns / source.group_size;
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const int64_t row = panel * kPanelRows + r;
      const std::span<uint8_t> row_codes(codes.data() + r * s.padded_columns, source.columns);
      const std::span<float> row_scales(scales.data() + r * s.groups(), groups);
      const std::span<float> row_biases(biases.data() + r * s.groups(), groups);
      if (row < source.rows) {
        source.fill_row(row, row_codes, row_scales, row_biases);
      } else {
        std::fill(row_codes.begin(), row_codes.end(), uint8_t{0});
        std::fill(row_scales.begin(), row_scales.end(), 0.0f);
        std::fill(row_biases.begin(), row_biases.end(), 0.0f);
      }
    }
  }
};

uint32_t load_quad(const uint8_t* bytes) {
  uint32_t quad;
  std::memcpy(&quad, bytes, sizeof(quad));
  return quad;
}

void pack_codes(const PanelRowsBuffer& rows, const PanelStorage& s, uint8_t* panel) {
  const int64_t quads = s.padded_columns / kQuad;
  for (int64_t r = 0; r < kPanelRows; ++r) {
    const uint8_t* from = rows.codes.data() + r * s.padded_columns;
    uint8_t* to = panel + r * kQuad;
    if (s.bits == 8) {
      for (int64_t q = 0; q < quads; ++q) {
        const uint32_t quad = load_quad(from + q * kQuad);
        std::memcpy(to + q * kBlockBytes, &quad, sizeof(quad));
      }
      continue;
    }
    for (int64_t q = 0; q < quads; q += 2) {
      const uint32_t low = load_quad(from + q * kQuad) & 0x0f0f0f0fu;
      const uint32_t high = load_quad(from + (q + 1) * kQuad) & 0x0f0f0f0fu;
      const uint32_t both = low | (high << 4);
      std::memcpy(to + (q / 2) * kBlockBytes, &both, sizeof(both));
    }
  }
}

// What the first attempt assumes and a row can refute.
struct Refuted {
  std::atomic<bool> half_scales{false};
  std::atomic<bool> zero_point{false};
};

void pack_factors(const std::vector<float>& from, const PanelStorage& s, uint8_t* to,
                  Refuted& refuted) {
  const int64_t groups = s.groups();
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const float value = from[r * groups + g];
      const int64_t index = g * kPanelRows + r;
      if (s.wide_scales) {
        std::memcpy(to + index * 4, &value, 4);
        continue;
      }
      uint16_t half = 0;
      if (!half_if_exact(value, &half)) {
        refuted.half_scales.store(true, std::memory_order_relaxed);
        return;
      }
      std::memcpy(to + index * 2, &half, 2);
    }
  }
}

void check_zero_point(const PanelRowsBuffer& rows, const PanelStorage& s, Refuted& refuted) {
  const auto zero = static_cast<float>(-s.zero_point());
  for (size_t i = 0; i < rows.scales.size(); ++i) {
    if (!(rows.biases[i] == zero * rows.scales[i])) {
      refuted.zero_point.store(true, std::memory_order_relaxed);
      return;
    }
  }
}

// Packs everything unless a row refutes an assumption; then gives up at once.
void pack_all(const PanelSource& source, PanelStorage& s, Refuted& refuted) {
  parallel_for(s.panels(), std::max<int64_t>(1, s.panels() / 64), [&](int64_t begin, int64_t end) {
    PanelRowsBuffer rows(s);
    for (int64_t p = begin; p < end && !refuted.half_scales && !refuted.zero_point; ++p) {
      rows.fill(source, s, p);
      uint8_t* panel = s.panel(p);
      pack_codes(rows, s, panel);
      pack_factors(rows.scales, s, panel + s.scales_offset, refuted);
      if (s.stored_biases) {
        pack_factors(rows.biases, s, panel + s.biases_offset, refuted);
      } else {
        check_zero_point(rows, s, refuted);
      }
    }
  });
}

}  // namespace

bool half_if_exact(float value, uint16_t* half) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint32_t>((bits >> 16) & 0x8000u);
  const int exponent = static_cast<int>((bits >> 23) & 0xff) - 127;
  const uint32_t fraction = bits & 0x7fffffu;
  if ((bits & 0x7fffffffu) == 0) {
    *half = static_cast<uint16_t>(sign);
    return true;
  }
  if (exponent >= -14 && exponent <= 15) {
    *half = static_cast<uint16_t>(sign | static_cast<uint32_t>((exponent + 15) << 10) |
                                  (fraction >> 13));
    return (fraction & 0x1fffu) == 0;
  }
  if (exponent >= -24 && exponent < -14) {
    const int shift = 13 + (-14 - exponent);
    const uint32_t whole = fraction | 0x800000u;
    *half = static_cast<uint16_t>(sign | (whole >> shift));
    return (whole & ((1u << shift) - 1)) == 0;
  }
  return false;
}

float float_from_half(uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const auto fraction = static_cast<float>(half & 0x3ff);
  const float magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0f + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

void PanelStorage::allocate() {
  const auto round_up = [](int64_t bytes) {
    return (bytes + kBlockBytes - 1) & ~(kBlockBytes - 1);
  };
  const int64_t factors = groups() * kPanelRows * (wide_scales ? 4 : 2);
  scales_offset = padded_columns * kPanelRows * bits / 8;
  biases_offset = scales_offset + factors;
  panel_bytes = round_up(biases_offset + (stored_biases ? factors : 0));
  memory = PanelMemory::allocate(bytes());
}

void unpack_row(const PanelStorage& s, int64_t row, float* out) {
  const uint8_t* panel = s.panel(row / kPanelRows);
  const int64_t lane = row % kPanelRows;
  const auto factor = [&](int64_t offset, int64_t group) {
    const int64_t index = group * kPanelRows + lane;
    if (s.wide_scales) {
      float value;
      std::memcpy(&value, panel + offset + index * 4, 4);
      return value;
    }
    uint16_t half;
    std::memcpy(&half, panel + offset + index * 2, 2);
    return float_from_half(half);
  };
  for (int64_t group = 0; group * s.group_size < s.columns; ++group) {
    const float scale = factor(s.scales_offset, group);
    const float bias = s.stored_biases ? factor(s.biases_offset, group)
                                       : static_cast<float>(-s.zero_point()) * scale;
    for (int64_t k = group * s.group_size; k < (group + 1) * s.group_size; ++k) {
      const int64_t quad = k / kQuad;
      const int64_t block = s.bits == 8 ? quad : quad / 2;
      const uint8_t byte = panel[block * kBlockBytes + lane * kQuad + k % kQuad];
      const int code = s.bits == 8 ? byte : (quad % 2 == 0 ? byte & 0xf : byte >> 4);
      out[k] = std::fma(scale, static_cast<float>(code), bias);
    }
  }
}

int64_t QuantizedPanels::rows() const {
  return storage_->rows;
}
int64_t QuantizedPanels::columns() const {
  return storage_->columns;
}
int QuantizedPanels::bits() const {
  return storage_->bits;
}
int QuantizedPanels::group_size() const {
  return storage_->group_size;
}
size_t QuantizedPanels::bytes() const {
  return static_cast<size_t>(storage_->bytes());
}

QuantizedPanels pack_panels(const PanelSource& source) {
  check_source(source);
  bool wide_scales = false;
  bool stored_biases = false;
  for (;;) {
    auto storage = std::make_shared<PanelStorage>();
    storage->rows = source.rows;
    storage->columns = source.columns;
    storage->padded_columns =
        (source.columns + kActivationGroup - 1) / kActivationGroup * kActivationGroup;
    storage->bits = source.bits;
    storage->group_size = source.group_size;
    storage->wide_scales = wide_scales;
    storage->stored_biases = stored_biases;
    storage->allocate();
    Refuted refuted;
    pack_all(source, *storage, refuted);
    if (!refuted.half_scales && !refuted.zero_point) {
      return QuantizedPanels(std::move(storage));
    }
    storage->memory.give_back();
    wide_scales = wide_scales || refuted.half_scales;
    stored_biases = stored_biases || refuted.zero_point;
  }
}

mx::array unpack(const QuantizedPanels& w) {
  const PanelStorage& s = w.storage();
  const mx::Shape shape{static_cast<int>(s.rows), static_cast<int>(s.columns)};
  auto* values = static_cast<float*>(std::malloc(static_cast<size_t>(s.rows * s.columns) * 4));
  CHECK(values != nullptr, "out of memory");
  parallel_for(s.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      unpack_row(s, row, values + row * s.columns);
    }
  });
  return mx::array(values, shape, mx::float32, [](void* p) { std::free(p); });
}

}  // namespace pome::kernels
