#include "kernels/paged_attention/paged_attention.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cpu_primitive.h"
#include "kernels/paged_attention/page_memory.h"

namespace pome::kernels {
namespace {

class PagedAppend : public CpuPrimitive {
 public:
  const char* name() const override { return "PagedAppend"; }

  // Inputs: k pages, v pages, k, v, slots. Outputs: the same two buffers.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    alias_pages(in[0], out[0]);
    alias_pages(in[1], out[1]);
    const PageMemory k_pages = page_memory(out[0]);
    const PageMemory v_pages = page_memory(out[1]);
    const auto* k = rows<float>(in[2]);
    const auto* v = rows<float>(in[3]);
    const auto* slots = rows<int32_t>(in[4]);
    const int64_t tokens = in[4].size();
    dispatch([=] {
      run_append(k_pages, k, slots, tokens);
      run_append(v_pages, v, slots, tokens);
    });
  }
};

class Attention : public CpuPrimitive {
 public:
  explicit Attention(const AttentionOptions& options) {
    attention_.scale = options.scale;
    attention_.window = options.window;
    attention_.softcap = options.softcap;
  }
  const char* name() const override { return "PagedAttention"; }

  // Inputs: q, k pages, v pages, page table, row offsets, KV lengths, and the sinks if there are
  // any.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    PagedAttention a = attention_;
    a.q = rows<float>(in[0]);
    a.k = page_memory(in[1]);
    a.v = page_memory(in[2]);
    a.page_table = rows<int32_t>(in[3]);
    a.row_offsets = rows<int32_t>(in[4]);
    a.kv_lengths = rows<int32_t>(in[5]);
    a.sinks = in.size() > 6 ? rows<float>(in[6]) : nullptr;
    a.tokens = in[0].shape(0);
    a.q_heads = in[0].shape(1);
    a.rows = in[3].shape(0);
    a.table_pages = in[3].shape(1);
    a.out = allocate<float>(out[0]);
    dispatch([a] { run_paged_attention(a); });
  }

 private:
  PagedAttention attention_;
};

void check_attention(const mx::array& q, const KvPages& pages, const PagedRows& rows) {
  check_pages(pages);
  const int heads = pages.k.shape(2);
  const int dim = pages.k.shape(3);
  if (q.ndim() != 3 || q.shape(2) != dim || q.shape(1) % heads != 0 || dim % 8 != 0 || dim > 256) {
    throw std::invalid_argument(fmt::format(
        "[paged_attention] expected q [T, a multiple of {}, {}] with a head size of 8, 16, … 256",
        heads, dim));
  }
  if (rows.page_table.ndim() != 2 ||
      rows.kv_lengths.size() != static_cast<size_t>(rows.page_table.shape(0)) ||
      rows.row_offsets.size() != rows.page_table.shape(0) + 1u) {
    throw std::invalid_argument(
        "[paged_attention] expected a page table [R, P], R lengths and R + 1 offsets");
  }
}

}  // namespace

PageMemory page_memory(const mx::array& pages) {
  PageMemory memory;
  memory.data = const_cast<char*>(pages.data<char>());
  memory.type = pages.dtype() == mx::float32
                    ? PageType::f32
                    : (pages.dtype() == mx::float16 ? PageType::f16 : PageType::bf16);
  memory.pages = pages.shape(0);
  memory.page_tokens = pages.shape(1);
  memory.heads = pages.shape(2);
  memory.dim = pages.shape(3);
  return memory;
}

void check_pages(const KvPages& pages) {
  const mx::Dtype dtype = pages.k.dtype();
  const bool known = dtype == mx::float32 || dtype == mx::float16 || dtype == mx::bfloat16;
  if (pages.k.ndim() != 4 || pages.k.shape() != pages.v.shape() || pages.v.dtype() != dtype ||
      !known) {
    throw std::invalid_argument(
        "[KvPages] expected k and v of one shape [pages, page_tokens, Hkv, D] in f32, f16 or bf16");
  }
}

void alias_pages(const mx::array& pages, mx::array& out) {
  if (!pages.flags().row_contiguous) {
    throw std::invalid_argument("[KvPages] expected a pool in row-major order");
  }
  out.copy_shared_buffer(pages);
}

KvPages paged_append(const KvPages& pages, const mx::array& k, const mx::array& v,
                     const mx::array& slots) {
  check_pages(pages);
  const mx::Shape shape{static_cast<int>(slots.size()), pages.k.shape(2), pages.k.shape(3)};
  if (k.shape() != shape || v.shape() != shape) {
    throw std::invalid_argument(
        fmt::format("[paged_append] expected k and v [{}, {}, {}]", shape[0], shape[1], shape[2]));
  }
  if (!own_cpu_kernels()) {
    return reference::paged_append(pages, k, v, slots);
  }
  const auto outputs = mx::array::make_arrays(
      {pages.k.shape(), pages.v.shape()}, {pages.k.dtype(), pages.v.dtype()},
      std::make_shared<PagedAppend>(),
      {pages.k, pages.v, mx::astype(k, mx::float32), mx::astype(v, mx::float32), slots});
  return {outputs[0], outputs[1]};
}

mx::array paged_attention(const mx::array& q, const KvPages& pages, const PagedRows& rows,
                          const AttentionOptions& options) {
  check_attention(q, pages, rows);
  if (!own_cpu_kernels() || q.dtype() != mx::float32) {
    return reference::paged_attention(q, pages, rows, options);
  }
  std::vector<mx::array> inputs{
      q, pages.k, pages.v, rows.page_table, rows.row_offsets, rows.kv_lengths};
  if (options.sinks) {
    inputs.push_back(mx::astype(*options.sinks, mx::float32));
  }
  return mx::array(q.shape(), mx::float32, std::make_shared<Attention>(options), std::move(inputs));
}

}  // namespace pome::kernels
