#include "engine/memory/work_samples.h"

#include <gtest/gtest.h>

namespace pome::engine {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// 1 GiB whatever happens, 24 MiB a token, 48 a row.
WorkSample sample(int64_t tokens, int64_t rows) {
  return {tokens, rows, (1024 + 24 * tokens + 48 * rows) * kMiB};
}

int64_t with_reserve(int64_t bytes) {
  return bytes + bytes / 8;
}

int64_t planned(int64_t bytes) {
  return (with_reserve(bytes) + kMiB - 1) / kMiB * kMiB;
}

TEST(WorkSamples, GrowByTokensAndRows) {
  const WorkSamples samples{sample(4, 1), sample(16, 1), sample(4, 4), {}};
  EXPECT_EQ(work_of_step(samples, 4, 1), planned(sample(4, 1).bytes));
  EXPECT_EQ(work_of_step(samples, 512, 1), planned(sample(512, 1).bytes));
  EXPECT_EQ(work_of_step(samples, 2048, 64), planned(sample(2048, 64).bytes));
}

TEST(WorkSamples, LeaveNoMoreThanTheStepItselfWithoutTheirReserve) {
  for (const int64_t bytes : {0, 1, 8, 9, 1000, 12345}) {
    EXPECT_LE(without_reserve(with_reserve(bytes)), bytes);
    EXPECT_GE(without_reserve(with_reserve(bytes)), bytes - 2);
  }
}

TEST(WorkSamples, RoundUpWhatOneMoreTakes) {
  const WorkSamples samples{{4, 1, 8 * kMiB}, {16, 1, 8 * kMiB + 1}, {4, 4, 8 * kMiB + 1}, {}};
  EXPECT_EQ(work_of_step(samples, 4, 1), 9 * kMiB);
  EXPECT_EQ(work_of_step(samples, 14, 11), 10 * kMiB);
}

TEST(WorkSamples, TellWhatAStepTakesThatIsQueuedWhole) {
  EXPECT_EQ(queued_step_bytes({.queued_whole = {16, 1, 80 * kMiB}}), 90 * kMiB);
  EXPECT_EQ(queued_step_bytes({.queued_whole = {16, 1, 80 * kMiB + 1}}), 91 * kMiB);
}

TEST(WorkSamples, NeverSayLessThanTheSmallestStepTook) {
  const WorkSamples shrinking{{4, 1, 5000}, {16, 1, 4000}, {4, 4, 3000}, {}};
  EXPECT_EQ(work_of_step(shrinking, 512, 16), planned(5000));
  EXPECT_EQ(work_of_step({sample(4, 1), sample(16, 1), sample(4, 1), {}}, 1, 1),
            planned(sample(4, 1).bytes))
      << "a server that runs one request rehearses one row";
}

}  // namespace
}  // namespace pome::engine
