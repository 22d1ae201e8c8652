#include "quant/coded_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "quant/block_format.h"
#include "tensor/dense.h"

namespace pome::quant {
namespace {

using tensor::Encoding;
using tensor::FileTensor;
using tensor::LoadError;

constexpr size_t kDropBytes = size_t{4} << 20;

// The rows of a matrix in a file; drops the pages of a run of rows when the last of them was read.
class FileRows {
 public:
  FileRows(const FileTensor& tensor, std::optional<std::vector<int32_t>> order)
      : tensor_(tensor),
        order_(std::move(order)),
        rows_(static_cast<size_t>(tensor.shape[0])),
        row_bytes_(tensor.bytes.size() / rows_),
        run_rows_(std::max<size_t>(1, kDropBytes / std::max<size_t>(1, row_bytes_))),
        left_((rows_ + run_rows_ - 1) / run_rows_) {
    for (size_t run = 0; run < left_.size(); ++run) {
      left_[run] = static_cast<int64_t>(std::min(run_rows_, rows_ - run * run_rows_));
    }
  }

  // Runs end inside pages, so the last of them go here.
  ~FileRows() {
    if (dropped_) {
      tensor_.file->drop(tensor_.bytes);
    }
  }

  std::span<const std::byte> row(int64_t index) const {
    return tensor_.bytes.subspan(source(index) * row_bytes_, row_bytes_);
  }

  // Packing may start over, so a run counts anew once it was dropped.
  void done(int64_t index) const {
    const size_t run = source(index) / run_rows_;
    const size_t begin = run * run_rows_;
    const size_t count = std::min(run_rows_, rows_ - begin);
    if (left_[run].fetch_sub(1) == 1) {
      left_[run].fetch_add(static_cast<int64_t>(count));
      tensor_.file->drop(tensor_.bytes.subspan(begin * row_bytes_, count * row_bytes_));
      dropped_ = true;
    }
  }

  Encoding encoding() const { return tensor_.encoding; }

 private:
  size_t source(int64_t index) const {
    const auto row = static_cast<size_t>(index);
    return order_ ? static_cast<size_t>((*order_)[row]) : row;
  }

  FileTensor tensor_;
  std::optional<std::vector<int32_t>> order_;
  size_t rows_;
  size_t row_bytes_;
  size_t run_rows_;
  mutable std::vector<std::atomic<int64_t>> left_;
  mutable std::atomic<bool> dropped_ = false;
};

void check_matrix(const std::string& name, int64_t rows, int64_t columns,
                  const QuantizedModule& module) {
  const bool fits = (module.rows == 0 || module.rows == rows) &&
                    (module.columns == 0 || module.columns == columns);
  if (!fits) {
    throw LoadError(fmt::format("[load] tensor \"{}\": expected shape [{}, {}], got [{}, {}]", name,
                                module.rows, module.columns, rows, columns));
  }
}

const FileTensor& take_matrix(const tensor::Weights& w, std::string_view leaf) {
  const FileTensor& tensor = w.file_tensor(leaf);
  if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1) {
    throw LoadError(fmt::format("[load] tensor \"{}\": expected a matrix, got shape {}",
                                w.full_name(leaf), tensor::shape_text(tensor.shape)));
  }
  return tensor;
}

CodedRows open_blocks(const QuantizedModule& module) {
  const tensor::Weights& w = module.weights;
  const FileTensor& tensor = take_matrix(w, "weight");
  const BlockForm form = block_form(tensor.encoding);
  CodedRows out;
  out.name = w.full_name("weight");
  out.origin = tensor::encoding_name(tensor.encoding);
  out.rows = tensor.shape[0];
  out.columns = tensor.shape[1];
  out.code_bits = form.code_bits;
  out.group_size = form.group_size;
  out.zero_point = form.zero_point;
  check_matrix(out.name, out.rows, out.columns, module);
  auto rows = std::make_shared<FileRows>(tensor, w.row_order("weight"));
  out.fill_row = [rows](int64_t row, std::span<uint8_t> codes, std::span<float> scales,
                        std::span<float> biases) {
    decode_row(rows->encoding(), rows->row(row), codes, scales, biases);
    rows->done(row);
  };
  return out;
}

// MLX packs codes as one little-endian stream of bits.
void read_codes(std::span<const std::byte> packed, int bits, std::span<uint8_t> codes) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(packed.data());
  if (bits == 8) {
    std::memcpy(codes.data(), bytes, codes.size());
    return;
  }
  if (bits == 4) {
    for (size_t i = 0; i + 1 < codes.size(); i += 2) {
      codes[i] = bytes[i / 2] & 15u;
      codes[i + 1] = static_cast<uint8_t>(bytes[i / 2] >> 4);
    }
    return;
  }
  uint32_t window = 0;
  int held = 0;
  for (uint8_t& code : codes) {
    if (held < bits) {
      window |= static_cast<uint32_t>(*bytes++) << held;
      held += 8;
    }
    code = static_cast<uint8_t>(window & ((1u << bits) - 1u));
    window >>= bits;
    held -= bits;
  }
}

void read_floats(Encoding encoding, std::span<const std::byte> from, std::span<float> to) {
  if (encoding == Encoding::f32) {
    std::memcpy(to.data(), from.data(), to.size_bytes());
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from.data() + i * sizeof bits, sizeof bits);
    to[i] = encoding == Encoding::f16 ? tensor::f16_to_f32(bits) : tensor::bf16_to_f32(bits);
  }
}

// "scales" or "biases": [N, K / group_size], floating point.
std::shared_ptr<FileRows> open_group_values(const tensor::Weights& w, std::string_view leaf,
                                            const CodedRows& form) {
  const FileTensor& tensor = take_matrix(w, leaf);
  if (tensor.shape[0] != form.rows || tensor.shape[1] != form.columns / form.group_size ||
      !tensor::is_floating(tensor.encoding)) {
    throw LoadError(fmt::format("[load] tensor \"{}\": expected floating point [{}, {}], got {} {}",
                                w.full_name(leaf), form.rows, form.columns / form.group_size,
                                tensor::encoding_name(tensor.encoding),
                                tensor::shape_text(tensor.shape)));
  }
  return std::make_shared<FileRows>(tensor, w.row_order("weight"));
}

CodedRows open_affine(const QuantizedModule& module) {
  const tensor::Weights& w = module.weights;
  const std::optional<tensor::AffineSetting> setting = w.affine_setting();
  if (!setting) {
    throw LoadError(
        fmt::format("[load] tensor \"{}\": expected an entry in config.json's \"quantization\" "
                    "that gives its bits",
                    w.full_name("scales")));
  }
  const FileTensor& tensor = take_matrix(w, "weight");
  CodedRows out;
  out.name = w.full_name("weight");
  out.origin = fmt::format("affine {}-bit, groups of {}", setting->bits, setting->group_size);
  out.rows = tensor.shape[0];
  out.columns = tensor.shape[1] * 32 / setting->bits;
  out.code_bits = setting->bits;
  out.group_size = setting->group_size;
  if (tensor.encoding != Encoding::u32 || out.columns % out.group_size != 0 ||
      out.columns * setting->bits != tensor.shape[1] * 32) {
    throw LoadError(fmt::format(
        "[load] tensor \"{}\": expected U32 words that hold rows of {}, got {} {}", out.name,
        out.origin, tensor::encoding_name(tensor.encoding), tensor::shape_text(tensor.shape)));
  }
  check_matrix(out.name, out.rows, out.columns, module);
  auto words = std::make_shared<FileRows>(tensor, w.row_order("weight"));
  auto scale_rows = open_group_values(w, "scales", out);
  auto bias_rows = open_group_values(w, "biases", out);
  out.fill_row = [=, bits = out.code_bits](int64_t row, std::span<uint8_t> codes,
                                           std::span<float> scales, std::span<float> biases) {
    read_codes(words->row(row), bits, codes);
    read_floats(scale_rows->encoding(), scale_rows->row(row), scales);
    read_floats(bias_rows->encoding(), bias_rows->row(row), biases);
    words->done(row);
    scale_rows->done(row);
    bias_rows->done(row);
  };
  return out;
}

}  // namespace

CodedRows open_coded_rows(const QuantizedModule& module) {
  return module.weights.has("scales") ? open_affine(module) : open_blocks(module);
}

}  // namespace pome::quant
