#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>

#include "kernels/thread_pool.h"

// Google Benchmark's main, with --threads=N for the kernels' pool.
int main(int argc, char** argv) {
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) == 0) {
      pome::kernels::set_thread_count(std::max(1, std::atoi(argv[i] + 10)));
    } else {
      argv[kept++] = argv[i];
    }
  }
  benchmark::Initialize(&kept, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
