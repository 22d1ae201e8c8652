#include "telemetry/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"

namespace pome::telemetry {
namespace {

class TraceTest : public testing::Test {
 protected:
  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".json");

  std::unique_ptr<Trace> open(TraceLimits limits = {}) {
    auto trace = Trace::open(path_, limits);
    EXPECT_TRUE(trace.ok());
    return std::move(*trace);
  }

  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path_).rdbuf();
    return out.str();
  }

  // What a viewer reads, without the names of process and threads.
  std::vector<json::object> events() const {
    const auto parsed = parse_json(text());
    EXPECT_TRUE(parsed.ok()) << text();
    std::vector<json::object> out;
    for (const json::value& value : parsed->as_array()) {
      if (find_string(value.as_object(), "ph") != "M") {
        out.push_back(value.as_object());
      }
    }
    return out;
  }
};

TEST_F(TraceTest, ASpanIsASliceWithItsFigures) {
  auto trace = open();
  {
    TraceSpan span(trace.get(), "plan");
    span.arg("step", 7);
    span.arg("rows", 3);
  }
  trace.reset();
  const auto all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(find_string(all[0], "name"), "plan");
  EXPECT_EQ(find_string(all[0], "ph"), "X");
  EXPECT_GE(find_double(all[0], "ts").value(), 0.0);
  EXPECT_GE(find_double(all[0], "dur").value(), 0.0);
  EXPECT_EQ(find_int(*find_object(all[0], "args"), "step"), 7);
  EXPECT_EQ(find_int(*find_object(all[0], "args"), "rows"), 3);
}

TEST_F(TraceTest, ASpanWithoutARecorderDoesNothing) {
  TraceSpan span(nullptr, "plan");
  span.arg("step", 7);
}

TEST_F(TraceTest, AnInnerSpanLiesWithinTheOuterOne) {
  auto trace = open();
  {
    const TraceSpan outer(trace.get(), "step");
    const TraceSpan inner(trace.get(), "run");
  }
  trace.reset();
  const auto all = events();
  ASSERT_EQ(all.size(), 2u);
  const auto begin = [&](size_t i) { return find_double(all[i], "ts").value(); };
  const auto end = [&](size_t i) { return begin(i) + find_double(all[i], "dur").value(); };
  EXPECT_EQ(find_string(all[0], "name"), "run");
  EXPECT_LE(begin(1), begin(0));
  EXPECT_LE(end(0), end(1) + 0.001);  // times are written in thousandths of a microsecond
}

TEST_F(TraceTest, ARequestBeginsOnOneThreadAndEndsOnAnother) {
  auto trace = open();
  trace->begin("request", 12, "rid-1", {{"prompt_tokens", 5}});
  std::thread([&] {
    trace->name_thread("engine");
    trace->end("request", 12, {{"completion_tokens", 9}});
  }).join();
  trace.reset();
  const auto all = events();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(find_string(all[0], "ph"), "b");
  EXPECT_EQ(find_string(*find_object(all[0], "args"), "of"), "rid-1");
  EXPECT_EQ(find_int(*find_object(all[0], "args"), "prompt_tokens"), 5);
  EXPECT_EQ(find_string(all[1], "ph"), "e");
  EXPECT_EQ(find_string(all[0], "id"), find_string(all[1], "id"));
  EXPECT_NE(find_int(all[0], "tid"), find_int(all[1], "tid"));
  EXPECT_THAT(text(), testing::HasSubstr("\"thread_name\""));
  EXPECT_THAT(text(), testing::HasSubstr("\"engine\""));
}

TEST_F(TraceTest, AClientsTextCannotBreakTheFile) {
  auto trace = open();
  trace->begin("request", 1, "\"},\n{\\ \x01\xff" + std::string(500, 'x'));
  trace.reset();
  const auto all = events();
  ASSERT_EQ(all.size(), 1u);
  const std::string of = find_string(*find_object(all[0], "args"), "of").value();
  EXPECT_EQ(of.size(), Trace::kTextBytes);
  EXPECT_EQ(of.substr(0, 8), "?},?{? ?");
}

TEST_F(TraceTest, AFullBufferDropsAndCounts) {
  auto trace = open({.events_per_thread = 4, .write_every = std::chrono::hours(1)});
  for (int i = 0; i < 10; ++i) {
    trace->end("request", static_cast<uint64_t>(i));
  }
  EXPECT_EQ(trace->dropped(), 6);
  trace.reset();
  EXPECT_EQ(events().size(), 4u);
}

TEST_F(TraceTest, AFullFileEndsTheRecordingAndIsStillWhole) {
  auto trace = open({.bytes_max = 2000});
  for (int i = 0; i < 100; ++i) {
    trace->end("request", static_cast<uint64_t>(i));
  }
  trace.reset();
  EXPECT_LE(text().size(), 2010u);
  EXPECT_GT(events().size(), 5u);
}

TEST_F(TraceTest, AFileThatACrashCutIsWholeUpToItsEnd) {
  auto trace = open({.write_every = std::chrono::milliseconds(1)});
  trace->end("request", 1);
  while (text().find("\"id\":\"1\"") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto cut = parse_json(text() + "]");  // viewers supply the bracket
  EXPECT_TRUE(cut.ok()) << text();
}

TEST_F(TraceTest, ThreadsRecordSideBySideWithoutLoss) {
  constexpr int kEvents = 2000;
  auto trace = open({.events_per_thread = kEvents, .write_every = std::chrono::milliseconds(1)});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEvents; ++i) {
        TraceSpan span(trace.get(), "run");
        span.arg("step", i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(trace->dropped(), 0);
  trace.reset();
  std::map<int64_t, int64_t> next;  // each track's slices come in order
  for (const json::object& event : events()) {
    EXPECT_EQ(find_int(*find_object(event, "args"), "step"),
              next[find_int(event, "tid").value()]++);
  }
  ASSERT_EQ(next.size(), 4u);
  for (const auto& [track, count] : next) {
    EXPECT_EQ(count, kEvents);
  }
}

TEST_F(TraceTest, AThreadOutlivesOneRecorderAndUsesTheNext) {
  auto first = open();
  first->end("request", 1);
  first.reset();
  auto second = open();
  second->end("request", 2);
  second.reset();
  ASSERT_EQ(events().size(), 1u);
  EXPECT_EQ(find_string(events()[0], "id"), "2");
}

TEST_F(TraceTest, BetweenRecordingsNothingIsKept) {
  Trace trace;
  trace.name_thread("engine");
  trace.end("request", 1);
  ASSERT_TRUE(trace.start(path_, {}, Trace::Existing::replace).ok());
  trace.end("request", 2);
  EXPECT_TRUE(trace.stop());
  trace.end("request", 3);
  EXPECT_FALSE(trace.stop());
  ASSERT_EQ(events().size(), 1u);
  EXPECT_EQ(find_string(events()[0], "id"), "2");
  EXPECT_THAT(text(), testing::HasSubstr("\"engine\""));
}

TEST_F(TraceTest, ASecondRecordingIsAFileOfItsOwnWithTheThreadsNames) {
  Trace trace;
  trace.name_thread("engine");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(trace.start(path_, {}, Trace::Existing::replace).ok());
    trace.end("request", static_cast<uint64_t>(i));
    EXPECT_TRUE(trace.stop());
    ASSERT_EQ(events().size(), 1u);
    EXPECT_EQ(find_string(events()[0], "id"), std::to_string(i));
    EXPECT_THAT(text(), testing::HasSubstr("\"engine\""));
  }
}

TEST_F(TraceTest, ARecordingTakesNoOthersFileAndNoSecondOneStarts) {
  Trace trace;
  ASSERT_TRUE(trace.start(path_, {}, Trace::Existing::replace).ok());
  EXPECT_FALSE(trace.start(path_.string() + ".other").ok());
  EXPECT_TRUE(trace.stop());
  EXPECT_FALSE(trace.start(path_).ok());
  EXPECT_FALSE(trace.under_way());
}

TEST_F(TraceTest, AWindowHoldsItsStepsAndEndsByItself) {
  std::vector<std::string> heard;
  Trace trace;
  ASSERT_TRUE(trace
                  .start(path_,
                         {.first_step = 3,
                          .steps = 2,
                          .on_begin = [&] { heard.emplace_back("begin"); },
                          .on_end = [&] { heard.emplace_back("end"); }},
                         Trace::Existing::replace)
                  .ok());
  for (int64_t step = 1; step <= 8; ++step) {
    trace.step_begins(step);
    {
      TraceSpan span(&trace, "run");
      span.arg("step", step);
    }
    trace.step_ends(step);
    EXPECT_EQ(trace.under_way(), step < 4) << step;
  }
  EXPECT_FALSE(trace.stop());
  ASSERT_TRUE(trace.start(path_.string() + ".next", {}, Trace::Existing::replace).ok());
  ASSERT_EQ(events().size(), 2u);  // the file is whole once the next one has begun
  EXPECT_EQ(find_int(*find_object(events()[0], "args"), "step"), 3);
  EXPECT_EQ(find_int(*find_object(events()[1], "args"), "step"), 4);
  EXPECT_EQ(heard, (std::vector<std::string>{"begin", "end"}));
}

TEST_F(TraceTest, AWindowWithoutAFirstStepBeginsWithTheNextOne) {
  Trace trace;
  ASSERT_TRUE(trace.start(path_, {.steps = 1}, Trace::Existing::replace).ok());
  trace.end("request", 1);  // before any step
  trace.step_begins(41);
  trace.end("request", 2);
  trace.step_begins(42);  // planned while 41 is in flight
  trace.step_ends(41);
  EXPECT_FALSE(trace.under_way());
  trace.step_ends(42);
}

TEST_F(TraceTest, AWindowThatNeverBeganCallsNobody) {
  int calls = 0;
  Trace trace;
  ASSERT_TRUE(
      trace
          .start(path_,
                 {.first_step = 100, .on_begin = [&] { ++calls; }, .on_end = [&] { ++calls; }},
                 Trace::Existing::replace)
          .ok());
  trace.step_begins(1);
  EXPECT_TRUE(trace.stop());
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(events().size(), 0u);
}

TEST_F(TraceTest, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  const auto trace = Trace::open("/no/such/folder/trace.json");
  ASSERT_FALSE(trace.ok());
  EXPECT_THAT(trace.error().message, testing::HasSubstr("/no/such/folder/trace.json"));
}

}  // namespace
}  // namespace pome::telemetry
