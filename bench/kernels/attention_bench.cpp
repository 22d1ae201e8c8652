#include <benchmark/benchmark.h>

#include <numeric>

#include "kernels/paged_attention/paged_attention.h"
#include "made_up.h"

namespace pome::bench {
namespace {

// Pools of 3 heads of 64 for `cached` tokens; kinds: f16, int8, int4.
kernels::KvPages pool_of(int pages, int64_t kind) {
  const mx::Shape shape{pages, 16, 3, 64};
  const mx::array values = normal_array(shape, 1);
  if (kind == 0) {
    const mx::array half = mx::contiguous(mx::astype(values, mx::float16));
    return {half, mx::contiguous(half + mx::array(0.0f, mx::float16))};
  }
  const kernels::CodedHeads coded{
      64, {.element = kind == 1 ? kvcache::KvElement::int8 : kvcache::KvElement::int4}};
  const mx::array bytes = mx::contiguous(kernels::reference::encode_heads(values, coded));
  return {bytes, mx::contiguous(bytes + mx::array(0, mx::uint8)), coded};
}

// One row of `tokens` new tokens over `cached` keys, 9 query and 3 key heads of 64, in a model of
// so many layers: with 30 of them long caches come from memory.
void attention(benchmark::State& state) {
  const auto tokens = static_cast<int>(state.range(0));
  const auto cached = static_cast<int>(state.range(1));
  const int pages = (cached + 15) / 16;
  std::vector<kernels::KvPages> layers;
  for (int64_t layer = 0; layer < state.range(2); ++layer) {
    layers.push_back(pool_of(pages, state.range(3)));
    mx::eval(layers.back().k, layers.back().v);
  }
  std::vector<int32_t> table(pages);
  std::iota(table.begin(), table.end(), 0);
  const std::vector<int32_t> offsets{0, tokens};
  const kernels::PagedRows rows{mx::array(table.begin(), {1, pages}, mx::int32),
                                mx::array(offsets.begin(), {2}, mx::int32),
                                mx::array({cached}, mx::int32),
                                {tokens}};
  const mx::array q = normal_array({tokens, 9, 64}, 2);
  mx::eval(rows.page_table, rows.row_offsets, rows.kv_lengths);
  for (auto _ : state) {
    std::vector<mx::array> outputs;
    for (const kernels::KvPages& layer : layers) {
      outputs.push_back(kernels::paged_attention(q, layer, rows, {.scale = 0.125f}));
    }
    mx::eval(outputs);
  }
  const double runs = static_cast<double>(state.iterations() * state.range(2)) * 1e-9;
  const double keys = tokens * (cached - 0.5 * (tokens - 1));
  state.counters["GFLOP/s"] =
      benchmark::Counter(runs * 4 * 9 * 64 * keys, benchmark::Counter::kIsRate);
  state.counters["KV GB/s"] = benchmark::Counter(
      runs * 2 * static_cast<double>(layers[0].k.nbytes()), benchmark::Counter::kIsRate);
}
BENCHMARK(attention)
    ->ArgNames({"T", "cached", "layers", "kind"})
    ->Args({1, 128, 1, 0})
    ->Args({1, 512, 1, 0})
    ->Args({1, 4096, 1, 0})
    ->Args({1, 4096, 30, 0})
    ->Args({1, 4096, 30, 1})
    ->Args({1, 4096, 30, 2})
    ->Args({128, 128, 1, 0})
    ->Args({512, 512, 1, 0})
    ->Args({512, 4096, 1, 0})
    ->Args({512, 4096, 1, 1})
    ->Args({512, 4096, 1, 2})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pome::bench
