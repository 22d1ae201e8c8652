#include <benchmark/benchmark.h>

#include "kernels/matmul/matmul.h"
#include "kernels/quantized_matmul/quantized_matmul.h"
#include "made_up.h"

namespace pome::bench {
namespace {

// One product again and again: the weights stay in the caches that hold them.
void quantized_product(benchmark::State& state) {
  const auto tokens = static_cast<int>(state.range(0));
  const int64_t rows = state.range(1);
  const int64_t columns = state.range(2);
  const auto bits = static_cast<int>(state.range(3));
  const kernels::QuantizedPanels w = block_matrix(rows, columns, bits);
  const mx::array x = normal_array({tokens, static_cast<int>(columns)}, 1);
  for (auto _ : state) {
    mx::array y = kernels::quantized_matmul(x, w);
    y.eval();
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["weight GB/s"] =
      benchmark::Counter(runs * static_cast<double>(w.bytes()) * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] = benchmark::Counter(
      runs * 2e-9 * tokens * static_cast<double>(rows * columns), benchmark::Counter::kIsRate);
}
BENCHMARK(quantized_product)
    ->ArgNames({"T", "N", "K", "bits"})
    ->Args({1, 3072, 576, 4})
    ->Args({1, 49152, 576, 8})
    ->Args({1, 14336, 4096, 4})
    ->Args({8, 3072, 576, 4})
    ->Args({128, 3072, 576, 4})
    ->Args({128, 576, 1536, 4})
    ->Args({128, 3072, 576, 8})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

void dense_product(benchmark::State& state) {
  const auto tokens = static_cast<int>(state.range(0));
  const auto rows = static_cast<int>(state.range(1));
  const auto columns = static_cast<int>(state.range(2));
  const mx::Dtype dtype = state.range(3) == 32 ? mx::float32 : mx::bfloat16;
  mx::array w = mx::astype(normal_array({rows, columns}, 2), dtype);
  w.eval();
  const mx::array x = normal_array({tokens, columns}, 1);
  for (auto _ : state) {
    mx::array y = kernels::matmul_nt(x, w);
    y.eval();
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["weight GB/s"] = benchmark::Counter(runs * static_cast<double>(w.nbytes()) * 1e-9,
                                                     benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(runs * 2e-9 * tokens * rows * columns, benchmark::Counter::kIsRate);
}
BENCHMARK(dense_product)
    ->ArgNames({"T", "N", "K", "bits"})
    ->Args({1, 4096, 4096, 32})
    ->Args({1, 4096, 4096, 16})
    ->Args({128, 1024, 1024, 32})
    ->Args({128, 1024, 1024, 16})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pome::bench
