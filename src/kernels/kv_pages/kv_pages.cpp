#include "kernels/kv_pages/kv_pages.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cpu_primitive.h"
#include "kernels/kv_pages/append_on_metal.h"
#include "kernels/kv_pages/page_arrays.h"

namespace pome::kernels {
namespace {

class PagedAppend : public CpuPrimitive {
 public:
  explicit PagedAppend(const std::optional<CodedHeads>& coded) : coded_(coded) {}
  const char* name() const override { return "PagedAppend"; }

  // Inputs: k pages, v pages, k, v, slots. Outputs: the same two buffers.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    alias_pages(in[0], out[0]);
    alias_pages(in[1], out[1]);
    const PageMemory k_pages = key_memory(out[0], coded_);
    const PageMemory v_pages = value_memory(out[1], coded_);
    const auto* k = rows<float>(in[2]);
    const auto* v = rows<float>(in[3]);
    const auto* slots = rows<int32_t>(in[4]);
    const int64_t tokens = in[4].size();
    dispatch([=] {
      run_append(k_pages, k, slots, tokens);
      run_append(v_pages, v, slots, tokens);
    });
  }

 private:
  std::optional<CodedHeads> coded_;
};

class CopyPages : public CpuPrimitive {
 public:
  const char* name() const override { return "CopyPages"; }

  // Inputs: k pages, v pages, from, to. Outputs: the same two buffers.
  void eval_cpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    alias_pages(in[0], out[0]);
    alias_pages(in[1], out[1]);
    const PageMemory k_pages = value_memory(out[0], std::nullopt);
    const PageMemory v_pages = value_memory(out[1], std::nullopt);
    const auto* from = rows<int32_t>(in[2]);
    const auto* to = rows<int32_t>(in[3]);
    const int64_t count = in[2].size();
    dispatch([=] {
      run_copy(k_pages, from, to, count);
      run_copy(v_pages, from, to, count);
    });
  }
};

PageType page_type(mx::Dtype dtype) {
  if (dtype == mx::float32) {
    return PageType::f32;
  }
  return dtype == mx::float16 ? PageType::f16 : PageType::bf16;
}

bool is_group_size(int32_t size) {
  return size == 32 || size == 64 || size == 128;
}

void check_coded(const KvPages& pages) {
  const CodedHeads& coded = *pages.coded;
  const int64_t bytes = coded.format.head_bytes(coded.dim);
  if (!coded.format.coded() || !is_group_size(coded.format.group_size) || coded.dim < 8 ||
      coded.dim > 256 || coded.dim % 8 != 0 || pages.k.dtype() != mx::uint8 ||
      pages.k.shape(3) != bytes) {
    throw std::invalid_argument(fmt::format(
        "[KvPages] expected uint8 pages of {} bytes a head, in groups of 32, 64 or 128 and heads "
        "of 8, 16, … 256",
        bytes));
  }
}

}  // namespace

PageMemory pool_shape(const mx::array& half, const std::optional<CodedHeads>& coded) {
  PageMemory memory;
  memory.pages = half.shape(0);
  memory.page_tokens = half.shape(1);
  memory.heads = half.shape(2);
  memory.head_bytes = half.shape(3) * static_cast<int64_t>(half.itemsize());
  if (coded) {
    const bool wide = coded->format.element == kvcache::KvElement::int8;
    memory.type = wide ? PageType::int8 : PageType::int4;
    memory.dim = coded->dim;
    memory.group_size = coded->format.group_size;
  } else {
    memory.type = page_type(half.dtype());
    memory.dim = half.shape(3);
  }
  return memory;
}

PageMemory value_memory(const mx::array& half, const std::optional<CodedHeads>& coded) {
  PageMemory memory = pool_shape(half, coded);
  memory.data = const_cast<char*>(half.data<char>());
  return memory;
}

PageMemory key_memory(const mx::array& half, const std::optional<CodedHeads>& coded) {
  PageMemory memory = value_memory(half, coded);
  memory.rotated = coded.has_value();
  return memory;
}

void check_pages(const KvPages& pages) {
  const mx::Dtype dtype = pages.k.dtype();
  if (pages.k.ndim() != 4 || pages.k.shape() != pages.v.shape() || pages.v.dtype() != dtype) {
    throw std::invalid_argument(
        "[KvPages] expected k and v of one dtype and shape [pages, page_tokens, Hkv, …]");
  }
  if (pages.coded) {
    return check_coded(pages);
  }
  if (dtype != mx::float32 && dtype != mx::float16 && dtype != mx::bfloat16) {
    throw std::invalid_argument("[KvPages] expected f32, f16 or bf16, or how integers are coded");
  }
}

void alias_pages(const mx::array& half, mx::array& out) {
  if (!half.flags().row_contiguous) {
    throw std::invalid_argument("[KvPages] expected a pool in row-major order");
  }
  out.copy_shared_buffer(half);
}

KvPages paged_append(const KvPages& pages, const mx::array& k, const mx::array& v,
                     const mx::array& slots) {
  check_pages(pages);
  const mx::Shape shape{static_cast<int>(slots.size()), pages.heads(), pages.head_dim()};
  if (k.shape() != shape || v.shape() != shape) {
    throw std::invalid_argument(
        fmt::format("[paged_append] expected k and v [{}, {}, {}]", shape[0], shape[1], shape[2]));
  }
  if (appends_on_metal(pages)) {
    return append_on_metal(pages, mx::astype(k, mx::float32), mx::astype(v, mx::float32), slots);
  }
  if (!own_cpu_kernels()) {
    return reference::paged_append(pages, k, v, slots);
  }
  const auto outputs = mx::array::make_arrays(
      {pages.k.shape(), pages.v.shape()}, {pages.k.dtype(), pages.v.dtype()},
      std::make_shared<PagedAppend>(pages.coded),
      {pages.k, pages.v, mx::astype(k, mx::float32), mx::astype(v, mx::float32), slots});
  return {outputs[0], outputs[1], pages.coded};
}

KvPages copy_pages(const KvPages& pages, const mx::array& from, const mx::array& to) {
  check_pages(pages);
  if (from.ndim() != 1 || from.shape() != to.shape()) {
    throw std::invalid_argument("[copy_pages] expected as many pages to copy to as from");
  }
  if (!own_cpu_kernels()) {
    return reference::copy_pages(pages, from, to);
  }
  const auto outputs =
      mx::array::make_arrays({pages.k.shape(), pages.v.shape()}, {pages.k.dtype(), pages.v.dtype()},
                             std::make_shared<CopyPages>(), {pages.k, pages.v, from, to});
  return {outputs[0], outputs[1], pages.coded};
}

bool appends_in_place(const KvPages& pages) {
  return own_cpu_kernels() || appends_on_metal(pages);
}

}  // namespace pome::kernels
