#include "engine/memory/memory_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace pome::engine {
namespace {

using testing::HasSubstr;

class MemoryLedgerTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }
  MemoryLedger opened() {
    auto ledger = MemoryLedger::open(folder_);
    EXPECT_TRUE(ledger.ok()) << ledger.error().message;
    return std::move(*ledger);
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("pome_ledger_" + std::to_string(getpid()));
};

TEST_F(MemoryLedgerTest, EachSeesWhatTheOthersPlanned) {
  MemoryLedger first = opened();
  MemoryLedger second = opened();
  ASSERT_TRUE(first.enter({.process = 11, .planned_bytes = 500}).ok());
  EXPECT_TRUE(first.others().empty());
  ASSERT_EQ(second.others().size(), 1U);
  EXPECT_EQ(second.others()[0].process, 11);
  EXPECT_EQ(second.others()[0].planned_bytes, 500);
  EXPECT_FALSE(second.others()[0].loaded);
  ASSERT_TRUE(first.enter({.process = 11, .planned_bytes = 700, .loaded = true}).ok());
  EXPECT_EQ(second.others()[0].planned_bytes, 700);
  EXPECT_TRUE(second.others()[0].loaded);
}

TEST_F(MemoryLedgerTest, AnEntryGoesWithItsLedger) {
  MemoryLedger watcher = opened();
  {
    MemoryLedger other = opened();
    ASSERT_TRUE(other.enter({.process = 1, .planned_bytes = 5}).ok());
    EXPECT_EQ(watcher.others().size(), 1U);
  }
  EXPECT_TRUE(watcher.others().empty());
}

TEST_F(MemoryLedgerTest, AKilledProcessLeavesNothingBehind) {
  MemoryLedger watcher = opened();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto ledger = MemoryLedger::open(folder_);
    const bool entered = ledger.ok() && ledger->enter({.process = 1, .planned_bytes = 5}).ok();
    const char byte = entered ? 'y' : 'n';
    [[maybe_unused]] const ssize_t written = write(ready[1], &byte, 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_EQ(watcher.others().size(), 1U);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(watcher.others().empty());
  int files = 0;
  for (const auto& item : std::filesystem::directory_iterator(folder_)) {
    files += item.path().extension() == ".plan" ? 1 : 0;
  }
  EXPECT_EQ(files, 0);
}

TEST_F(MemoryLedgerTest, OnlyOnePlansAtATime) {
  int locked[2];
  ASSERT_EQ(pipe(locked), 0);
  const pid_t child = fork();  // before the lock is taken: a fork would hold it too
  if (child == 0) {
    alarm(20);  // it must not wait for ever
    char byte = 0;
    [[maybe_unused]] const ssize_t told = read(locked[0], &byte, 1);
    auto ledger = MemoryLedger::open(folder_);
    const bool planned = ledger.ok() && ledger->begin_plan().ok();
    _exit(planned && ledger->others().size() == 1 ? 0 : 1);
  }
  MemoryLedger first = opened();
  ASSERT_TRUE(first.begin_plan().ok());
  ASSERT_EQ(write(locked[1], "y", 1), 1);
  ASSERT_TRUE(first.enter({.process = 1, .planned_bytes = 5}).ok());
  first.end_plan();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "it saw the plan made before its own";
}

TEST_F(MemoryLedgerTest, WhatIsNoEntryIsPassedOver) {
  MemoryLedger watcher = opened();
  for (const char* text :
       {"", "x", "1", "1 2", "-1 5 0\n", "1 99999999999999999999 0\n", "1 2 3"}) {
    MemoryLedger other = opened();
    ASSERT_TRUE(other.enter({.process = 1, .planned_bytes = 5}).ok());
    for (const auto& item : std::filesystem::directory_iterator(folder_)) {
      if (item.path().extension() == ".plan") {
        std::ofstream(item.path(), std::ios::trunc) << text;
      }
    }
    EXPECT_TRUE(watcher.others().empty()) << text;
  }
}

TEST_F(MemoryLedgerTest, AFolderThatIsNoneIsRefusedByName) {
  std::ofstream(folder_) << "a file";
  EXPECT_THAT(MemoryLedger::open(folder_).error().message, HasSubstr(folder_.string()));
}

TEST(ClaimedBytes, AreWhatWasPlannedAndNotTakenYet) {
  const std::vector<LedgerEntry> others = {{1, 100, false}, {2, 50, true}};
  EXPECT_EQ(claimed_bytes(others, [](const LedgerEntry&) { return int64_t{0}; }), 150);
  EXPECT_EQ(claimed_bytes(others, [](const LedgerEntry& e) { return e.process == 1 ? 30 : 60; }),
            70);
}

}  // namespace
}  // namespace pome::engine
