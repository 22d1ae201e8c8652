#include "kernels/paged_attention/paged_attention.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/cpu_primitive.h"
#include "kernels/kv_pages/page_arrays.h"
#include "kernels/paged_attention/paged_attention_cpu.h"

namespace pome::kernels {
namespace {

class Attention : public CpuPrimitive {
 public:
  Attention(const AttentionOptions& options, const std::optional<CodedHeads>& coded)
      : coded_(coded) {
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
    a.k = key_memory(in[1], coded_);
    a.v = value_memory(in[2], coded_);
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
  std::optional<CodedHeads> coded_;
};

void check_attention(const mx::array& q, const KvPages& pages, const PagedRows& rows) {
  check_pages(pages);
  const int heads = pages.heads();
  const int dim = pages.head_dim();
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
  return mx::array(q.shape(), mx::float32, std::make_shared<Attention>(options, pages.coded),
                   std::move(inputs));
}

}  // namespace pome::kernels
