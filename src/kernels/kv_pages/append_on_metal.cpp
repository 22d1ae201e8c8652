#include "kernels/kv_pages/append_on_metal.h"

#include <fmt/format.h>

#include <exception>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "append.metal.h"
#include "base/log.h"
#include "kernels/backend.h"
#include "kernels/counters.h"
#include "kernels/kv_pages/page_arrays.h"
#include "kernels/metal/launch.h"

namespace pome::kernels {
namespace {

VariantCounter count_append("kv_pages/append_metal");

// As append.metal has it.
struct AppendShape {
  int32_t tokens = 0;
  int32_t heads = 0;
  int32_t dim = 0;
  int32_t slots = 0;
  int32_t head_bytes = 0;
  int32_t group_size = 0;
};

std::string kernel_name(PageType type) {
  switch (type) {
    case PageType::f32:
      return "append_float32";
    case PageType::f16:
      return "append_float16";
    case PageType::bf16:
      return "append_bfloat16";
    case PageType::int8:
      return "append_int8";
    case PageType::int4:
      break;
  }
  return "append_int4";
}

class MetalAppend : public metal::GpuPrimitive {
 public:
  explicit MetalAppend(const std::optional<CodedHeads>& coded) : coded_(coded) {}
  const char* name() const override { return "MetalAppend"; }

  // Inputs: k pages, v pages, k, v, slots. Outputs: the same two buffers.
  void eval_gpu(const std::vector<mx::array>& in, std::vector<mx::array>& out) override {
    count_append.add();
    alias_pages(in[0], out[0]);
    alias_pages(in[1], out[1]);
    const PageMemory pages = pool_shape(out[0], coded_);
    const AppendShape shape{.tokens = static_cast<int32_t>(in[4].size()),
                            .heads = static_cast<int32_t>(pages.heads),
                            .dim = static_cast<int32_t>(pages.dim),
                            .slots = static_cast<int32_t>(pages.slots()),
                            .head_bytes = static_cast<int32_t>(pages.head_bytes),
                            .group_size = static_cast<int32_t>(pages.group_size)};
    metal::Launch launch(stream(), {"pome_kv_append", kAppendMetal, kernel_name(pages.type)});
    for (int i = 0; i < 3; ++i) {
      launch.input(in[i + 2], i);
    }
    launch.output(out[0], 3);
    launch.output(out[1], 4);
    launch.constant(shape, 5);
    const auto tokens = static_cast<size_t>(shape.tokens);
    const auto heads = static_cast<size_t>(shape.heads);
    const auto dim = static_cast<size_t>(shape.dim);
    if (pages.coded()) {
      launch.shared(dim * sizeof(float), 0);
      launch.shared((dim + 15) / 16 * 16, 1);
      launch.dispatch({heads, tokens, 2}, {dim, 1, 1});
    } else {
      constexpr size_t kThreads = 256;  // kHeadThreads of append.metal
      launch.dispatch({(heads * dim + kThreads - 1) / kThreads, tokens, 1}, {kThreads, 1, 1});
    }
  }

 private:
  std::optional<CodedHeads> coded_;
};

// A step of the trial: k and v [n, heads, dim] of many sizes, and slots of a pool of twelve.
struct TrialStep {
  mx::array k;
  mx::array v;
  mx::array slots;
  TrialStep(int heads, int dim, float seed, std::initializer_list<int32_t> places)
      : k(mx::array(0.0f)), v(k), slots(mx::array(places, mx::int32)) {
    const int tokens = static_cast<int>(places.size());
    const mx::array i = mx::arange(static_cast<float>(tokens * heads * dim));
    const mx::array values = mx::sin(i * mx::array(seed)) * mx::exp(mx::sin(i * mx::array(0.3f)));
    k = mx::reshape(values, {tokens, heads, dim});
    v = mx::negative(k);
  }
};

bool one_buffer(const mx::array& a, const mx::array& b) {
  return a.buffer().ptr() == b.buffer().ptr() && a.offset() == b.offset();
}

// As it stands in the log.
bool passes_trial(const KvPages& like) {
  const std::string fault = append_fault(like, append_on_metal);
  if (!fault.empty()) {
    log::warning("[kv_pages] the Metal append {}: plain operations copy the KV pool instead",
                 fault);
  }
  return fault.empty();
}

}  // namespace

std::string append_fault(const KvPages& like, const AppendBody& append) {
  try {
    const int heads = 2;
    const int dim = like.head_dim();
    const mx::Shape shape{3, 4, heads, like.k.shape(3)};
    const KvPages pool{mx::contiguous(mx::zeros(shape, like.k.dtype())),
                       mx::contiguous(mx::zeros(shape, like.k.dtype())), like.coded};
    const TrialStep first(heads, dim, 1.7f, {11, 0, 5, 6, 3});
    const TrialStep second(heads, dim, 2.3f, {7, 5});
    mx::eval(pool.k, pool.v);
    KvPages twin = reference::paged_append(pool, first.k, first.v, first.slots);
    twin = reference::paged_append(twin, second.k, second.v, second.slots);
    mx::eval(twin.k, twin.v);  // copies: `pool` is held
    const KvPages between = append(pool, first.k, first.v, first.slots);
    mx::async_eval(between.k, between.v);
    const KvPages own = append(between, second.k, second.v, second.slots);
    mx::eval(own.k, own.v);
    if (!one_buffer(own.k, pool.k) || !one_buffer(own.v, pool.v)) {
      return "copies the pool";
    }
    const bool same =
        mx::array_equal(own.k, twin.k).item<bool>() && mx::array_equal(own.v, twin.v).item<bool>();
    return same ? "" : "writes other bytes than plain operations";
  } catch (const std::exception& fault) {
    return std::string("throws (") + fault.what() + ")";
  }
}

bool appends_on_metal(const KvPages& pages) {
  if (!own_kernels_enabled() || !metal::available() ||
      mx::default_device() != mx::Device(mx::Device::gpu)) {
    return false;
  }
  using Kind = std::pair<std::string, int32_t>;  // kernel and head size; groups follow the former
  thread_local std::map<Kind, bool> verdicts;
  const PageMemory shape = pool_shape(pages.k, pages.coded);
  const Kind kind{fmt::format("{} {}", kernel_name(shape.type), shape.group_size),
                  pages.head_dim()};
  const auto known = verdicts.find(kind);
  return known != verdicts.end() ? known->second
                                 : verdicts.emplace(kind, passes_trial(pages)).first->second;
}

KvPages append_on_metal(const KvPages& pages, const mx::array& k, const mx::array& v,
                        const mx::array& slots) {
  const auto outputs = mx::array::make_arrays(
      {pages.k.shape(), pages.v.shape()}, {pages.k.dtype(), pages.v.dtype()},
      std::make_shared<MetalAppend>(pages.coded),
      {pages.k, pages.v, mx::contiguous(k), mx::contiguous(v), mx::contiguous(slots)});
  return {outputs[0], outputs[1], pages.coded};
}

}  // namespace pome::kernels
