#include "server/generation/finish_rate.h"

#include <gtest/gtest.h>

namespace pome::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FinishRateTest : public testing::Test {
 protected:
  FinishRateTest() { rate_.note_work(start_); }

  const FinishRate::Clock::time_point start_ = FinishRate::Clock::now();
  FinishRate rate_;
};

TEST_F(FinishRateTest, APlaceIsFreeWhenTheNextSequenceEnds) {
  for (int i = 1; i <= 10; ++i) {
    rate_.note_end(start_ + seconds(3 * i));
  }
  EXPECT_EQ(rate_.seconds_until(1, start_ + seconds(30)), 3);
  EXPECT_EQ(rate_.seconds_until(4, start_ + seconds(30)), 12);
}

TEST_F(FinishRateTest, IsAtLeastOneSecondAndAtMostAMinute) {
  for (int i = 1; i <= 1000; ++i) {
    rate_.note_end(start_ + milliseconds(i));
  }
  EXPECT_EQ(rate_.seconds_until(1, start_ + milliseconds(1000)), 1);
  EXPECT_EQ(rate_.seconds_until(1'000'000, start_ + milliseconds(1000)), 60);
}

TEST_F(FinishRateTest, BeforeAnythingHasEndedItIsTheTimeThatThatHasTaken) {
  EXPECT_EQ(rate_.seconds_until(1, start_), 1);
  EXPECT_EQ(rate_.seconds_until(1, start_ + seconds(20)), 20);
  EXPECT_EQ(rate_.seconds_until(1, start_ + seconds(900)), 60);
}

TEST_F(FinishRateTest, WhatEndedBeforeAPauseOrAMinuteAgoDoesNotCount) {
  for (int i = 0; i < 100; ++i) {
    rate_.note_end(start_ + milliseconds(i));
  }
  rate_.note_work(start_ + seconds(30));
  EXPECT_EQ(rate_.seconds_until(1, start_ + seconds(40)), 10);
  rate_.note_end(start_ + seconds(100));
  EXPECT_EQ(rate_.seconds_until(1, start_ + seconds(110)), 60);
}

}  // namespace
}  // namespace pome::server
