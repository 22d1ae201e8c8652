#include <benchmark/benchmark.h>

#include <numeric>

#include "kernels/paged_attention/paged_attention.h"
#include "made_up.h"

namespace pome::bench {
namespace {

// One row of `tokens` new tokens over `cached` keys, f16 pages, 9 query and 3 key heads of 64.
void attention(benchmark::State& state) {
  const auto tokens = static_cast<int>(state.range(0));
  const auto cached = static_cast<int>(state.range(1));
  const int pages = (cached + 15) / 16;
  const mx::array pool =
      mx::contiguous(mx::astype(normal_array({pages, 16, 3, 64}, 1), mx::float16));
  const kernels::KvPages kv{pool, pool};
  std::vector<int32_t> table(pages);
  std::iota(table.begin(), table.end(), 0);
  const std::vector<int32_t> offsets{0, tokens};
  const kernels::PagedRows rows{mx::array(table.begin(), {1, pages}, mx::int32),
                                mx::array(offsets.begin(), {2}, mx::int32),
                                mx::array({cached}, mx::int32), tokens};
  const mx::array q = normal_array({tokens, 9, 64}, 2);
  mx::eval(pool, rows.page_table, rows.row_offsets, rows.kv_lengths);
  for (auto _ : state) {
    mx::array y = kernels::paged_attention(q, kv, rows, {.scale = 0.125f});
    y.eval();
  }
  const double keys = tokens * (cached - 0.5 * (tokens - 1));
  state.counters["GFLOP/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 1e-9 * 4 * 9 * 64 * keys,
                         benchmark::Counter::kIsRate);
}
BENCHMARK(attention)
    ->ArgNames({"T", "cached"})
    ->Args({1, 128})
    ->Args({1, 512})
    ->Args({1, 4096})
    ->Args({128, 128})
    ->Args({512, 512})
    ->Args({512, 4096})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pome::bench
