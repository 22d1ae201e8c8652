#pragma once

#include <cstdint>
#include <type_traits>

// The CPU kernels' workers. The thread that calls parallel_for() (MLX's stream thread) is worker 0;
// the pool adds cores - 1 threads. Between the regions of one step workers spin at most 100 us,
// then they park: an idle process uses no CPU.
namespace pome::kernels {

// Threads in all, worker 0 included; the number of cores by default. At least 1, at most 256. Not
// while a region runs; before first use in a server, between regions in tests.
void set_thread_count(int threads);
int thread_count();

namespace detail {
using RegionBody = void (*)(void* context, int64_t begin, int64_t end);
void run_region(int64_t units, int64_t grain, RegionBody body, void* context);
}  // namespace detail

// Calls body(begin, end) until [0, units) is covered; blocks until all of it is done. Ranges start
// at multiples of `grain` and are claimed by whoever is free, so a unit's result must not depend on
// its range or thread. Bodies must not throw and must not call parallel_for(). One region at a
// time: calls from several threads take turns.
template <typename Body>
void parallel_for(int64_t units, int64_t grain, Body&& body) {
  using Stored = std::remove_reference_t<Body>;
  detail::run_region(
      units, grain,
      [](void* context, int64_t begin, int64_t end) {
        (*static_cast<Stored*>(context))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace pome::kernels
