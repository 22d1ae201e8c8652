#include <benchmark/benchmark.h>

#include <memory>
#include <numeric>
#include <vector>

#include "kernels/norm/norm.h"
#include "kernels/paged_attention/paged_attention.h"
#include "kernels/quantized_matmul/quantized_matmul.h"
#include "kernels/rope/rope.h"
#include "made_up.h"

namespace pome::bench {
namespace {

// A model of 30 layers in the shape of a 135M one (hidden 576, MLP 1536, 9 and 3 heads of 64,
// vocabulary 49152), 4-bit layers and an 8-bit head: what one engine step costs in kernels and MLX
// nodes alone.
struct Layer {
  kernels::QuantizedPanels qkv = block_matrix(960, 576, 4);
  kernels::QuantizedPanels o = block_matrix(576, 576, 4);
  kernels::QuantizedPanels gate_up = block_matrix(3072, 576, 4);
  kernels::QuantizedPanels down = block_matrix(576, 1536, 4);
};

struct Model {
  std::vector<Layer> layers = std::vector<Layer>(0);
  kernels::QuantizedPanels head = block_matrix(49152, 576, 8);
  mx::array norm = mx::ones({576});
  std::vector<kernels::KvPages> pools;
  double bytes = 0.0;

  Model() {
    for (int i = 0; i < 30; ++i) {
      layers.push_back({});
      const auto pool = [] { return mx::contiguous(mx::zeros({130, 16, 3, 64}, mx::float16)); };
      pools.push_back({pool(), pool()});
      mx::eval(pools.back().k, pools.back().v);
      const Layer& l = layers.back();
      bytes +=
          static_cast<double>(l.qkv.bytes() + l.o.bytes() + l.gate_up.bytes() + l.down.bytes());
    }
    bytes += static_cast<double>(head.bytes());
    norm.eval();
  }
};

struct StepInputs {
  mx::array ids;
  mx::array positions;
  mx::array slots;
  kernels::PagedRows rows;

  StepInputs(int tokens, int cached)
      : ids(mx::zeros({tokens}, mx::int32)),
        positions(mx::arange(cached - tokens, cached)),
        slots(positions + mx::array(16)),
        rows{mx::arange(1, 129), mx::array({0, tokens}), mx::array({cached}), {tokens}} {
    rows.page_table = mx::reshape(rows.page_table, {1, 128});
    mx::eval(ids, positions, slots, rows.page_table, rows.row_offsets, rows.kv_lengths);
  }
};

mx::array run_step(Model& model, const StepInputs& in) {
  mx::array h = kernels::quantized_rows(in.ids, model.head);
  mx::array x = kernels::rms_norm(h, model.norm, 1e-5f);
  const kernels::RopeOptions rope{.dims = 64};
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& l = model.layers[i];
    const kernels::RopedQuery q = kernels::rope_append(
        kernels::quantized_matmul(x, l.qkv), in.positions, model.pools[i], in.slots, rope);
    model.pools[i] = q.pages;
    const mx::array a = kernels::paged_attention(q.q, q.pages, in.rows, {.scale = 0.125f});
    const mx::array o = kernels::quantized_matmul(mx::reshape(a, {a.shape(0), 576}), l.o);
    const kernels::SumAndNorm mid = kernels::add_rms_norm(o, h, model.norm, 1e-5f);
    const mx::array mlp = kernels::quantized_matmul(
        kernels::quantized_gated_matmul(mid.normed, l.gate_up, kernels::GatedActivation::silu),
        l.down);
    const kernels::SumAndNorm end = kernels::add_rms_norm(mlp, mid.sum, model.norm, 1e-5f);
    h = end.sum;
    x = end.normed;
  }
  const int tokens = x.shape(0);
  const mx::array last = mx::slice(x, mx::Shape{tokens - 1, 0}, mx::Shape{tokens, 576});
  return kernels::quantized_matmul(last, model.head);
}

void step(benchmark::State& state) {
  static auto model = std::make_unique<Model>();
  const auto tokens = static_cast<int>(state.range(0));
  const StepInputs in(tokens, static_cast<int>(state.range(1)));
  for (auto _ : state) {
    mx::array logits = run_step(*model, in);
    logits.eval();
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["tok/s"] = benchmark::Counter(runs * tokens, benchmark::Counter::kIsRate);
  state.counters["weight GB/s"] =
      benchmark::Counter(runs * model->bytes * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(step)
    ->ArgNames({"T", "cached"})
    ->Args({1, 64})
    ->Args({1, 512})
    ->Args({1, 2000})
    ->Args({16, 512})
    ->Args({16, 2000})
    ->Args({20, 2000})
    ->Args({32, 2000})
    ->Args({64, 2000})
    ->Args({128, 2000})
    ->Args({128, 128})
    ->Args({512, 512})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pome::bench
