#include "kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pome::kernels {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSpin = std::chrono::microseconds(100);
constexpr int kSpinsPerClockRead = 64;
constexpr int64_t kRangesMax = 0xffff;

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A region's claim word: epoch (32 bits), number of ranges (16), next range (16). One
// compare-and-swap both claims a range and proves that the region is still the one whose body the
// worker is about to call.
uint64_t pack(uint32_t epoch, uint64_t ranges, uint64_t next) {
  return (uint64_t{epoch} << 32) | (ranges << 16) | next;
}
uint64_t ranges_of(uint64_t claim) {
  return (claim >> 16) & 0xffff;
}
uint64_t next_of(uint64_t claim) {
  return claim & 0xffff;
}

class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  }

  ~ThreadPool() {
    stopping_.store(true, std::memory_order_relaxed);
    signal_.fetch_add(1);
    signal_.notify_all();
    for (std::thread& worker : workers_) {
      worker.join();
    }
  }

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void run(int64_t units, int64_t grain, detail::RegionBody body, void* context) {
    const int64_t ranges = (units + grain - 1) / grain;
    if (ranges <= 1 || workers_.empty()) {
      body(context, 0, units);
      return;
    }
    // Ranges are counted in 16 bits; larger regions take a larger grain.
    const int64_t scale = (ranges + kRangesMax - 1) / kRangesMax;
    grain_ = grain * scale;
    units_ = units;
    body_ = body;
    context_ = context;
    const auto count = static_cast<uint64_t>((units + grain_ - 1) / grain_);
    done_.store(0, std::memory_order_relaxed);
    claim_.store(pack(++epoch_, count, 0), std::memory_order_release);
    signal_.fetch_add(1);
    if (parked_.load() > 0) {
      signal_.notify_all();
    }
    take_ranges();
    wait_until_done(static_cast<uint32_t>(count));
  }

 private:
  // Claims and runs ranges of the current region until none is left. Body and context are read
  // after a claim succeeded: the region cannot end before the claimed range is done, so they are
  // that region's.
  bool take_ranges() {
    bool worked = false;
    uint64_t claim = claim_.load(std::memory_order_acquire);
    while (next_of(claim) < ranges_of(claim)) {
      if (!claim_.compare_exchange_weak(claim, claim + 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      const int64_t begin = static_cast<int64_t>(next_of(claim)) * grain_;
      body_(context_, begin, std::min(begin + grain_, units_));
      done_.fetch_add(1, std::memory_order_release);
      worked = true;
      claim = claim_.load(std::memory_order_acquire);
    }
    return worked;
  }

  void wait_until_done(uint32_t count) {
    for (int spins = 0; done_.load(std::memory_order_acquire) != count; ++spins) {
      pause_cpu();
      // The other worker may have lost its core: let it have ours.
      if (spins > 20000) {
        std::this_thread::yield();
      }
    }
  }

  void work() {
    auto idle_since = Clock::now();
    while (!stopping_.load(std::memory_order_relaxed)) {
      const uint32_t seen = signal_.load();
      if (take_ranges()) {
        idle_since = Clock::now();
        continue;
      }
      for (int i = 0; i < kSpinsPerClockRead && signal_.load(std::memory_order_relaxed) == seen;
           ++i) {
        pause_cpu();
      }
      if (signal_.load(std::memory_order_relaxed) == seen && Clock::now() - idle_since > kSpin) {
        parked_.fetch_add(1);
        signal_.wait(seen);
        parked_.fetch_sub(1);
        idle_since = Clock::now();
      }
    }
  }

  alignas(64) std::atomic<uint64_t> claim_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> signal_{0};
  std::atomic<int> parked_{0};
  std::atomic<bool> stopping_{false};
  uint32_t epoch_ = 0;
  int64_t grain_ = 1;
  int64_t units_ = 0;
  detail::RegionBody body_ = nullptr;
  void* context_ = nullptr;
  std::vector<std::thread> workers_;
};

int default_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 256);
}

struct PoolHolder {
  std::mutex mutex;
  std::unique_ptr<ThreadPool> pool;
  int threads = default_threads();
};

// Never destroyed: MLX's stream thread may outlive main()'s statics.
PoolHolder& holder() {
  static auto* holder = new PoolHolder;
  return *holder;
}

}  // namespace

void set_thread_count(int threads) {
  CHECK(threads >= 1 && threads <= 256, "thread count must lie in 1 to 256");
  PoolHolder& h = holder();
  std::lock_guard lock(h.mutex);
  h.pool.reset();
  h.threads = threads;
}

int thread_count() {
  PoolHolder& h = holder();
  std::lock_guard lock(h.mutex);
  return h.threads;
}

namespace detail {

void run_region(int64_t units, int64_t grain, RegionBody body, void* context) {
  if (units <= 0) {
    return;
  }
  grain = std::max<int64_t>(grain, 1);
  if (units <= grain) {
    body(context, 0, units);
    return;
  }
  PoolHolder& h = holder();
  std::lock_guard lock(h.mutex);
  if (!h.pool) {
    h.pool = std::make_unique<ThreadPool>(h.threads);
  }
  h.pool->run(units, grain, body, context);
}

}  // namespace detail
}  // namespace pome::kernels
