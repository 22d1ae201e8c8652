#include "kernels/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

#include "kernels/kernel_testing.h"

namespace pome::kernels {
namespace {

TEST(ThreadPool, CallsTheBodyForEveryUnitOnceAndWaitsForAll) {
  testing::for_each_thread_count([](int threads) {
    for (const int64_t units : {0, 1, 2, 63, 64, 1000, 200000}) {
      for (const int64_t grain : {1, 7, 1000}) {
        std::vector<std::atomic<int>> calls(static_cast<size_t>(units));
        parallel_for(units, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            calls[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
          }
        });
        for (const std::atomic<int>& call : calls) {
          ASSERT_EQ(call.load(), 1) << units << " units, " << threads << " threads";
        }
      }
    }
  });
}

TEST(ThreadPool, StartsRangesAtMultiplesOfTheGrain) {
  set_thread_count(3);
  std::atomic<int> wrong{0};
  parallel_for(1001, 10, [&](int64_t begin, int64_t end) {
    wrong += begin % 10 != 0 || (end % 10 != 0 && end != 1001);
  });
  EXPECT_EQ(wrong.load(), 0);
  set_thread_count(static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(ThreadPool, SurvivesManyShortRegionsWithPausesBetween) {
  set_thread_count(4);
  std::atomic<int64_t> total{0};
  for (int region = 0; region < 3000; ++region) {
    parallel_for(16, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
    if (region % 500 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  EXPECT_EQ(total.load(), 3000 * 16);
  set_thread_count(static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(ThreadPool, TakesRegionsFromSeveralThreadsInTurns) {
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int region = 0; region < 200; ++region) {
        parallel_for(50, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(total.load(), 4 * 200 * 50);
}

TEST(ThreadPool, UsesNoProcessorTimeWhenIdle) {
  set_thread_count(4);
  parallel_for(100, 1, [](int64_t, int64_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.01);
  set_thread_count(static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace pome::kernels
