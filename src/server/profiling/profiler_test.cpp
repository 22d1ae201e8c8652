#include "server/profiling/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace pome::server {
namespace {

namespace fs = std::filesystem;
using protocol::native::ProfileRequest;
using testing::HasSubstr;

class ProfilerTest : public testing::Test {
 protected:
  ProfilerTest() {
    fs::remove_all(root_);
    fs::create_directories(root_ / "in");
    fs::create_directories(root_ / "in-not");
  }

  static int files_in(const fs::path& folder) {
    return static_cast<int>(
        std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  const fs::path root_ =
      fs::canonical(testing::TempDir()) /
      (std::string("profiler-") + testing::UnitTest::GetInstance()->current_test_info()->name());
  telemetry::Trace trace_;
};

TEST_F(ProfilerTest, AFolderInOrBelowTheRootIsMadeAndGiven) {
  const fs::path root = root_ / "in";
  EXPECT_EQ(*folder_within(root, ""), root);
  EXPECT_EQ(*folder_within(root, root.string()), root);
  EXPECT_EQ(*folder_within(root, "a/b"), root / "a/b");
  EXPECT_EQ(*folder_within(root, (root / "c").string()), root / "c");
  EXPECT_EQ(*folder_within(root, "a/../d/"), root / "d");
  EXPECT_TRUE(fs::is_directory(root / "a/b"));
}

TEST_F(ProfilerTest, AMissingRootIsMade) {
  EXPECT_EQ(*folder_within(root_ / "new/root", "x"), root_ / "new/root/x");
}

TEST_F(ProfilerTest, AnythingElsewhereIsRefusedAndNotMade) {
  const fs::path root = root_ / "in";
  for (const std::string& wanted :
       {std::string(".."), std::string("../out"), std::string("a/../../out"), std::string("/"),
        (root_ / "out").string(), (root_ / "in-not").string(), root_.string()}) {
    const auto folder = folder_within(root, wanted);
    ASSERT_FALSE(folder.ok()) << wanted;
    EXPECT_EQ(folder.error().field, "output_dir");
    EXPECT_EQ(folder.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(ProfilerTest, ALinkThatLeadsOutIsRefused) {
  fs::create_directory_symlink(root_ / "in-not", root_ / "in/link");
  EXPECT_FALSE(folder_within(root_ / "in", "link").ok());
  EXPECT_FALSE(folder_within(root_ / "in", "link/below").ok());
  EXPECT_EQ(files_in(root_ / "in-not"), 0);
}

TEST_F(ProfilerTest, AFileInTheWayIsAnError) {
  std::ofstream(root_ / "in/file") << "x";
  EXPECT_FALSE(folder_within(root_ / "in", "file/below").ok());
}

TEST_F(ProfilerTest, AProfileIsAFileAndEndsWithStop) {
  Profiler profiler(trace_, root_ / "in", {});
  const auto started = profiler.start({.prefix = "mine", .gpu = false});
  ASSERT_TRUE(started.ok());
  EXPECT_THAT(*started, HasSubstr((root_ / "in/mine-").string()));
  EXPECT_TRUE(trace_.recording());
  EXPECT_FALSE(profiler.start({}).ok());
  ASSERT_TRUE(profiler.stop().ok());
  EXPECT_FALSE(trace_.under_way());
  EXPECT_EQ(files_in(root_ / "in"), 1);
  const auto again = profiler.stop();
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().message, HasSubstr("mine-"));
}

TEST_F(ProfilerTest, AGpuCaptureRunsFromTheFirstStepOfTheWindowToTheLast) {
  std::vector<std::string> heard;
  Profiler profiler(trace_, root_ / "in",
                    {.start =
                         [&](const std::string& file) {
                           heard.push_back("start " + fs::path(file).extension().string());
                           return Status();
                         },
                     .stop = [&] { heard.emplace_back("stop"); }});
  ASSERT_TRUE(profiler.start({.num_steps = 1}).ok());
  EXPECT_TRUE(heard.empty());
  trace_.step_begins(7);
  EXPECT_EQ(heard, std::vector<std::string>{"start .gputrace"});
  trace_.step_ends(7);
  EXPECT_EQ(heard, (std::vector<std::string>{"start .gputrace", "stop"}));
  EXPECT_FALSE(profiler.stop().ok());
}

TEST_F(ProfilerTest, WhereThereIsNoGpuCaptureTheTraceIsMadeAndTheReasonSaid) {
  Profiler profiler(trace_, root_ / "in", {.why_not = "no GPU"});
  const auto both = profiler.start({});
  ASSERT_TRUE(both.ok());
  EXPECT_THAT(*both, HasSubstr("no GPU"));
  ASSERT_TRUE(profiler.stop().ok());
  const auto alone = profiler.start({.gpu_alone = true});
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().field, "activities");
  EXPECT_FALSE(trace_.under_way());
}

TEST_F(ProfilerTest, ACaptureThatFailsLeavesTheTrace) {
  Profiler profiler(trace_, root_ / "in",
                    {.start = [](const std::string&) -> Status {
                       return Error{ErrorCode::internal, "capture layer missing", {}};
                     },
                     .stop = [] {}});
  const auto started = profiler.start({});
  ASSERT_TRUE(started.ok());
  EXPECT_THAT(*started, HasSubstr("capture layer missing"));
  EXPECT_TRUE(trace_.recording());
}

TEST_F(ProfilerTest, AServerThatRecordsItsWholeRunMakesNoProfiles) {
  ASSERT_TRUE(trace_.start(root_ / "whole.json").ok());
  Profiler profiler(trace_, root_ / "in", {});
  EXPECT_THAT(profiler.start({}).error().message, HasSubstr("--trace-file"));
  EXPECT_FALSE(profiler.stop().ok());
  EXPECT_TRUE(trace_.recording());
}

}  // namespace
}  // namespace pome::server
