#include "quant/quantized_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "quant/coded_rows.h"
#include "tensor/dense.h"

namespace pome::quant {
namespace {

using tensor::LoadError;

// The smallest group that MLX's affine products know.
constexpr int kAffineGroupLeast = 32;

// Several matrices above one another, read as one; looks at each scale on its way.
class RowStack {
 public:
  explicit RowStack(std::vector<CodedRows> parts)
      : parts_(std::move(parts)), verdicts_(parts_.size()) {
    for (const CodedRows& part : parts_) {
      rows_ += part.rows;
    }
  }

  const CodedRows& first() const { return parts_.front(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return first().columns; }
  int64_t groups() const { return columns() / first().group_size; }

  void fill(int64_t row, std::span<uint8_t> codes, std::span<float> scales,
            std::span<float> biases) {
    size_t part = 0;
    while (row >= parts_[part].rows) {
      row -= parts_[part++].rows;
    }
    parts_[part].fill_row(row, codes, scales, biases);
    judge(verdicts_[part], scales, biases);
  }

  // After all rows: throws for scales that no quantizer writes.
  void check_scales() const {
    for (size_t part = 0; part < parts_.size(); ++part) {
      if (verdicts_[part].not_finite) {
        throw LoadError(fmt::format(
            "[load] tensor \"{}\" ({}): a scale is NaN or infinite; the file is damaged",
            parts_[part].name, parts_[part].origin));
      }
      if (!verdicts_[part].not_zero) {
        throw LoadError(
            fmt::format("[load] tensor \"{}\" ({}): every scale is zero; the file is damaged",
                        parts_[part].name, parts_[part].origin));
      }
    }
  }

  QuantizedWeight::Form form(int bits, int group_size) const {
    return {rows_, columns(), bits, group_size, first().origin};
  }

 private:
  struct Verdict {
    std::atomic<bool> not_finite = false;
    std::atomic<bool> not_zero = false;
  };

  static void judge(Verdict& verdict, std::span<const float> scales,
                    std::span<const float> biases) {
    // Multiplying by zero turns NaN and infinities into NaN, and a sum of such products keeps them.
    float poison = 0.0f;
    bool any = false;
    for (size_t i = 0; i < scales.size(); ++i) {
      poison += scales[i] * 0.0f + biases[i] * 0.0f;
      any = any || scales[i] != 0.0f;
    }
    if (poison != 0.0f || std::isnan(poison)) {
      verdict.not_finite = true;
    }
    if (any && !verdict.not_zero.load(std::memory_order_relaxed)) {
      verdict.not_zero = true;
    }
  }

  std::vector<CodedRows> parts_;
  std::vector<Verdict> verdicts_;
  int64_t rows_ = 0;
};

// Codes in 4 or 8 bits. Where the bias is a multiple of the scale, codes move so that it is -8 or
// -128 times the scale, which panels need not store.
QuantizedWeight pack_as_panels(RowStack& stack) {
  const CodedRows& first = stack.first();
  const int bits = first.code_bits <= 4 ? 4 : 8;
  const int zero = 1 << (bits - 1);
  kernels::PanelSource source;
  source.rows = stack.rows();
  source.columns = stack.columns();
  source.bits = bits;
  source.group_size = first.group_size;
  source.fill_row = [&](int64_t row, std::span<uint8_t> codes, std::span<float> scales,
                        std::span<float> biases) {
    stack.fill(row, codes, scales, biases);
    if (!first.zero_point || *first.zero_point == zero) {
      return;
    }
    const auto shift = static_cast<uint8_t>(zero - *first.zero_point);
    for (uint8_t& code : codes) {
      code = static_cast<uint8_t>(code + shift);
    }
    for (size_t i = 0; i < scales.size(); ++i) {
      biases[i] = static_cast<float>(-zero) * scales[i];
    }
  };
  kernels::QuantizedPanels panels = kernels::pack_panels(source);
  stack.check_scales();
  return {stack.form(bits, first.group_size), std::move(panels)};
}

// MLX's order: one little-endian stream of bits a row.
void write_codes(std::span<const uint8_t> codes, int bits, uint8_t* to) {
  uint32_t window = 0;
  int held = 0;
  for (uint8_t code : codes) {
    window |= static_cast<uint32_t>(code) << held;
    held += bits;
    while (held >= 8) {
      *to++ = static_cast<uint8_t>(window);
      window >>= 8;
      held -= 8;
    }
  }
}

// Rounds to nearest even; false when a finite value became infinite.
bool write_values(std::span<const float> values, mx::Dtype dtype, std::byte* to) {
  if (dtype == mx::float32) {
    std::memcpy(to, values.data(), values.size_bytes());
    return true;
  }
  bool fits = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool half = dtype == mx::float16;
    const uint16_t bits = half ? tensor::f32_to_f16(values[i]) : tensor::f32_to_bf16(values[i]);
    const uint16_t infinity = half ? 0x7c00u : 0x7f80u;
    fits = fits && ((bits & 0x7fffu) != infinity || std::isinf(values[i]));
    std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
  }
  return fits;
}

// Memory of MLX's that rows are written into from several threads.
struct Target {
  Target(int64_t rows, int64_t columns, mx::Dtype type)
      : data(mx::allocator::malloc(static_cast<size_t>(rows * columns) * type.size())),
        shape({static_cast<int32_t>(rows), static_cast<int32_t>(columns)}),
        dtype(type),
        row_bytes(static_cast<size_t>(columns) * type.size()) {
    mx::allocator::Buffer buffer = data.buffer();
    begin = static_cast<std::byte*>(buffer.raw_ptr());
  }
  std::byte* row(int64_t index) const { return begin + static_cast<size_t>(index) * row_bytes; }
  mx::array take() { return mx::array(std::move(data), shape, dtype); }

  mx::allocator::Data data;
  mx::Shape shape;
  mx::Dtype dtype;
  size_t row_bytes;
  std::byte* begin = nullptr;
};

// Calls body(row, codes, scales, biases) for each row, on all workers.
template <typename Body>
void for_each_row(RowStack& stack, Body body) {
  constexpr int64_t kRowsAtOnce = 16;
  kernels::parallel_for(stack.rows(), kRowsAtOnce, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> codes(static_cast<size_t>(stack.columns()));
    std::vector<float> scales(static_cast<size_t>(stack.groups()));
    std::vector<float> biases(scales.size());
    for (int64_t row = begin; row < end; ++row) {
      stack.fill(row, codes, scales, biases);
      body(row, codes, scales, biases);
    }
  });
}

void check_fits(const RowStack& stack, bool fits, mx::Dtype dtype) {
  if (!fits) {
    throw LoadError(fmt::format(
        "[load] tensor \"{}\" ({}): a value does not fit {}; load the model in "
        "another dtype",
        stack.first().name, stack.first().origin, dtype == mx::float16 ? "float16" : "bfloat16"));
  }
}

QuantizedWeight pack_as_affine(RowStack& stack, mx::Dtype dtype) {
  const int bits = stack.first().code_bits;
  Target words(stack.rows(), stack.columns() * bits / 32, mx::uint32);
  Target scale_rows(stack.rows(), stack.groups(), dtype);
  Target bias_rows(stack.rows(), stack.groups(), dtype);
  std::atomic<bool> fits = true;
  for_each_row(stack, [&](int64_t row, const auto& codes, const auto& scales, const auto& biases) {
    write_codes(codes, bits, reinterpret_cast<uint8_t*>(words.row(row)));
    if (!write_values(scales, dtype, scale_rows.row(row)) ||
        !write_values(biases, dtype, bias_rows.row(row))) {
      fits = false;
    }
  });
  stack.check_scales();
  check_fits(stack, fits, dtype);
  return {stack.form(bits, stack.first().group_size),
          AffineArrays{words.take(), scale_rows.take(), bias_rows.take()}};
}

QuantizedWeight unpack_as_dense(RowStack& stack, mx::Dtype dtype) {
  Target target(stack.rows(), stack.columns(), dtype);
  const auto group_size = static_cast<size_t>(stack.first().group_size);
  std::atomic<bool> fits = true;
  for_each_row(stack, [&](int64_t row, const auto& codes, const auto& scales, const auto& biases) {
    std::vector<float> values(codes.size());
    for (size_t i = 0; i < codes.size(); ++i) {
      values[i] =
          std::fma(scales[i / group_size], static_cast<float>(codes[i]), biases[i / group_size]);
    }
    if (!write_values(values, dtype, target.row(row))) {
      fits = false;
    }
  });
  stack.check_scales();
  check_fits(stack, fits, dtype);
  return {stack.form(static_cast<int>(dtype.size()) * 8, stack.first().group_size), target.take()};
}

bool stacks_on(const CodedRows& a, const CodedRows& b) {
  return a.columns == b.columns && a.code_bits == b.code_bits && a.group_size == b.group_size &&
         a.zero_point == b.zero_point;
}

}  // namespace

QuantizedWeight::QuantizedWeight(Form form, kernels::QuantizedPanels panels)
    : form_(std::move(form)), content_(std::move(panels)) {}
QuantizedWeight::QuantizedWeight(Form form, AffineArrays arrays)
    : form_(std::move(form)), content_(std::move(arrays)) {}
QuantizedWeight::QuantizedWeight(Form form, mx::array dense)
    : form_(std::move(form)), content_(std::move(dense)) {}

Layout QuantizedWeight::layout() const {
  constexpr Layout kLayouts[] = {Layout::panels, Layout::affine, Layout::dense};
  return kLayouts[content_.index()];
}

const kernels::QuantizedPanels& QuantizedWeight::panels() const {
  CHECK(layout() == Layout::panels, "the weight is not kept as panels");
  return std::get<kernels::QuantizedPanels>(content_);
}

const AffineArrays& QuantizedWeight::affine() const {
  CHECK(layout() == Layout::affine, "the weight is not kept as an affine triple");
  return std::get<AffineArrays>(content_);
}

const mx::array& QuantizedWeight::dense() const {
  CHECK(layout() == Layout::dense, "the weight is not kept as plain numbers");
  return std::get<mx::array>(content_);
}

size_t QuantizedWeight::bytes() const {
  switch (layout()) {
    case Layout::panels:
      return panels().bytes();
    case Layout::affine:
      return affine().weight.nbytes() + affine().scales.nbytes() + affine().biases.nbytes();
    case Layout::dense:
      return dense().nbytes();
  }
  return 0;
}

mx::array QuantizedWeight::unpack() const {
  switch (layout()) {
    case Layout::panels:
      return kernels::unpack(panels());
    case Layout::affine:
      return mx::dequantize(affine().weight, mx::astype(affine().scales, mx::float32),
                            mx::astype(affine().biases, mx::float32), form_.group_size, form_.bits);
    case Layout::dense:
      return mx::astype(dense(), mx::float32);
  }
  CHECK(false, "unknown layout");
}

bool is_quantized(const tensor::Weights& module) {
  return module.has("weight") &&
         (module.has("scales") || tensor::is_block(module.encoding("weight")));
}

bool can_stack(std::span<const QuantizedModule> modules) {
  if (modules.empty() ||
      !std::all_of(modules.begin(), modules.end(),
                   [](const QuantizedModule& module) { return is_quantized(module.weights); })) {
    return false;
  }
  const CodedRows first = open_coded_rows(modules.front());
  return std::all_of(modules.begin() + 1, modules.end(), [&](const QuantizedModule& module) {
    return stacks_on(first, open_coded_rows(module));
  });
}

QuantizedWeight load_quantized(std::span<const QuantizedModule> modules) {
  CHECK(!modules.empty(), "a matrix to load");
  std::vector<CodedRows> parts;
  for (const QuantizedModule& module : modules) {
    parts.push_back(open_coded_rows(module));
    if (!stacks_on(parts.front(), parts.back())) {
      throw LoadError(fmt::format("[load] tensor \"{}\" ({}) does not stack on \"{}\" ({})",
                                  parts.back().name, parts.back().origin, parts.front().name,
                                  parts.front().origin));
    }
  }
  const mx::Dtype dtype = modules.front().weights.dtype();
  RowStack stack(std::move(parts));
  if (kernels::own_cpu_kernels()) {
    return pack_as_panels(stack);
  }
  return stack.first().group_size >= kAffineGroupLeast ? pack_as_affine(stack, dtype)
                                                       : unpack_as_dense(stack, dtype);
}

QuantizedWeight load_quantized(const QuantizedModule& module) {
  return load_quantized(std::span(&module, 1));
}

}  // namespace pome::quant
