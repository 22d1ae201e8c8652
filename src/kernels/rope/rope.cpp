#include "kernels/rope/rope.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu_primitive.h"
#include "kernels/kv_pages/page_arrays.h"
#include "kernels/rope/rope_cpu.h"

namespace pome::kernels {
namespace {

// 1 / base^(2 i / dims) in f32, as the reference implementations of the models compute it.
mx::array default_frequencies(const RopeOptions& options) {
  std::vector<float> frequencies;
  for (int32_t i = 0; i < options.dims / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(options.dims);
    frequencies.push_back(1.0f / std::pow(options.base, exponent));
  }
  return mx::array(frequencies.begin(), {options.dims / 2}, mx::float32);
}

// The last table is kept: every layer of a model asks for the same one.
mx::array frequencies_of(const RopeOptions& options) {
  if (options.inverse_frequencies) {
    return *options.inverse_frequencies;
  }
  thread_local int32_t dims = 0;
  thread_local float base = 0.0f;
  thread_local std::optional<mx::array> known;
  if (!known || dims != options.dims || base != options.base) {
    known = default_frequencies(options);
    dims = options.dims;
    base = options.base;
  }
  return *known;
}

RopeTable table_of(const RopeOptions& options) {
  RopeTable table;
  table.dims = options.dims;
  table.scale = options.scale;
  table.amplitude = options.amplitude;
  table.traditional = options.traditional;
  return table;
}

class Rope : public CpuPrimitive {
 public:
  explicit Rope(RopeTable table) : table_(table) {}
  const char* name() const override { return "Rope"; }

  // Inputs: x, positions, frequencies.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    RopeTable table = table_;
    const auto* x = rows<float>(in[0]);
    table.positions = rows<int32_t>(in[1]);
    table.frequencies = rows<float>(in[2]);
    auto* to = allocate<float>(out[0]);
    dispatch([table, x, to, tokens = in[0].shape(0), heads = in[0].shape(1), dim = in[0].shape(2)] {
      run_rope(table, x, tokens, heads, dim, to);
    });
  }

 private:
  RopeTable table_;
};

class RopeAppendOp : public CpuPrimitive {
 public:
  RopeAppendOp(RopeTable table, float eps, const std::optional<CodedHeads>& coded)
      : table_(table), eps_(eps), coded_(coded) {}
  const char* name() const override { return "RopeAppend"; }

  // Inputs: qkv, positions, frequencies, k pages, v pages, slots, and the norms of q and k if there
  // are any. Outputs: q, and the pages' buffers again.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    RopeAppend work;
    work.table = table_;
    work.eps = eps_;
    work.qkv = rows<float>(in[0]);
    work.table.positions = rows<int32_t>(in[1]);
    work.table.frequencies = rows<float>(in[2]);
    work.slots = rows<int32_t>(in[5]);
    if (in.size() > 6) {
      work.q_norm = rows<float>(in[6]);
      work.k_norm = rows<float>(in[7]);
    }
    work.q = allocate<float>(out[0]);
    alias_pages(in[3], out[1]);
    alias_pages(in[4], out[2]);
    work.k = key_memory(out[1], coded_);
    work.v = value_memory(out[2], coded_);
    work.tokens = in[0].shape(0);
    work.q_heads = out[0].shape(1);
    dispatch([work] { run_rope_append(work); });
  }

 private:
  RopeTable table_;
  float eps_;
  std::optional<CodedHeads> coded_;
};

void check_options(const RopeOptions& options, int dim) {
  const bool known_frequencies =
      !options.inverse_frequencies ||
      options.inverse_frequencies->size() == static_cast<size_t>(options.dims / 2);
  if (options.dims <= 0 || options.dims % 2 != 0 || options.dims > dim || options.dims > 256 ||
      !known_frequencies) {
    throw std::invalid_argument(
        fmt::format("[rope] expected an even number of dims up to {} and 256 with half as many "
                    "frequencies, got {} dims",
                    dim, options.dims));
  }
}

void check_tokens(const mx::array& a, int tokens, const char* what) {
  if (a.size() != static_cast<size_t>(tokens)) {
    throw std::invalid_argument(
        fmt::format("[rope] expected {} {}, got {}", tokens, what, a.size()));
  }
}

void check_append(const mx::array& qkv, const KvPages& pages,
                  const std::optional<HeadNorms>& norms) {
  check_pages(pages);
  const int dim = pages.head_dim();
  const int kv_heads = pages.heads();
  if (qkv.ndim() != 2 || qkv.shape(1) % dim != 0 || qkv.shape(1) / dim <= 2 * kv_heads) {
    throw std::invalid_argument(
        fmt::format("[rope_append] expected qkv [T, (Hq + 2 · {}) · {}]", kv_heads, dim));
  }
  if (norms &&
      (norms->q.size() != static_cast<size_t>(dim) || norms->k.size() != norms->q.size())) {
    throw std::invalid_argument(fmt::format("[rope_append] expected norms of {} numbers", dim));
  }
}

}  // namespace

mx::array rope(const mx::array& x, const mx::array& positions, const RopeOptions& options) {
  if (x.ndim() != 3) {
    throw std::invalid_argument("[rope] expected x [T, H, D]");
  }
  check_options(options, x.shape(2));
  check_tokens(positions, x.shape(0), "positions");
  if (!own_cpu_kernels() || x.dtype() != mx::float32) {
    return reference::rope(x, positions, options);
  }
  return mx::array(x.shape(), mx::float32, std::make_shared<Rope>(table_of(options)),
                   {x, positions, frequencies_of(options)});
}

RopedQuery rope_append(const mx::array& qkv, const mx::array& positions, const KvPages& pages,
                       const mx::array& slots, const RopeOptions& options,
                       const std::optional<HeadNorms>& norms) {
  check_append(qkv, pages, norms);
  const int dim = pages.head_dim();
  const int tokens = qkv.shape(0);
  check_options(options, dim);
  check_tokens(positions, tokens, "positions");
  check_tokens(slots, tokens, "slots");
  if (!own_cpu_kernels() || qkv.dtype() != mx::float32) {
    // The append may still be an own kernel.
    const reference::RopedParts parts =
        reference::rope_parts(qkv, positions, pages.heads(), dim, options, norms);
    return {parts.q, paged_append(pages, parts.k, parts.v, slots)};
  }
  std::vector<mx::array> inputs{qkv, positions, frequencies_of(options), pages.k, pages.v, slots};
  if (norms) {
    inputs.push_back(mx::astype(norms->q, mx::float32));
    inputs.push_back(mx::astype(norms->k, mx::float32));
  }
  const int q_heads = qkv.shape(1) / dim - 2 * pages.heads();
  const auto outputs = mx::array::make_arrays(
      {mx::Shape{tokens, q_heads, dim}, pages.k.shape(), pages.v.shape()},
      {mx::float32, pages.k.dtype(), pages.v.dtype()},
      std::make_shared<RopeAppendOp>(table_of(options), norms ? norms->eps : 0.0f, pages.coded),
      inputs);
  return {outputs[0], {outputs[1], outputs[2], pages.coded}};
}

}  // namespace pome::kernels
