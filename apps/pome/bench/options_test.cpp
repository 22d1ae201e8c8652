#include "pome/bench/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "pome/bench/bench.h"

namespace pome::apps {
namespace {

using enum Kind;
using testing::HasSubstr;

std::vector<Flag> table() {
  return {bench_option({"--random-input-len"}, integer, "N", "1024", "x"),
          bench_option({"--random-output-len"}, integer, "N", "8", "x"),
          bench_option({"--rate", "--speed"}, number, "N", "inf", "x"),
          bench_option({"--batch-size"}, list, "N…", "1", "x"),
          bench_option({"--mode"}, text, "NAME", "a", "x", {"a", "b"}),
          bench_option({"--body"}, text, "JSON", "", "x"),
          bench_option({"--quick"}, toggle, "", "", "x"),
          idle_option({"--tokenizer"}, text, "the server has one"),
          refused_option({"--plot"}, toggle, "draw it yourself")};
}

Result<BenchOptions> parse(const std::vector<std::string>& words) {
  return BenchOptions::parse(words, table(), false);
}

TEST(BenchOptions, DefaultsAndValuesAreRead) {
  auto options = parse({"--random-input-len", "7", "--speed", "2.5", "--batch-size", "1", "16",
                        "64", "--quick", "--body", R"({"a": [1]})"});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->whole("random-input-len", 1), 7);
  EXPECT_EQ(options->whole("random-output-len", 1), 8);
  EXPECT_EQ(options->number("rate", 0, 10), 2.5);
  EXPECT_EQ(options->wholes("batch-size", 1), (std::vector<int32_t>{1, 16, 64}));
  EXPECT_EQ(options->text("mode"), "a");
  EXPECT_TRUE(options->on("quick"));
  EXPECT_EQ(options->object("body").size(), 1u);
  EXPECT_TRUE(options->status().ok());
  EXPECT_TRUE(options->warnings().empty());
}

TEST(BenchOptions, AListHasItsDefaultToo) {
  auto options = parse({});
  EXPECT_EQ(options->wholes("batch-size", 1), std::vector<int32_t>{1});
  EXPECT_FALSE(options->given("batch-size"));
}

TEST(BenchOptions, ANameMayBeCutWhereOneOptionBeginsSo) {
  auto options = parse({"--random-input", "5", "--batch=3"});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->whole("random-input-len", 1), 5);
  EXPECT_EQ(options->wholes("batch-size", 1), std::vector<int32_t>{3});
  EXPECT_FALSE(parse({"--random", "5"}).ok());
}

TEST(BenchOptions, UnknownAndRefusedOptionsAreErrors) {
  EXPECT_THAT(parse({"--nonsense"}).error().message, HasSubstr("--nonsense"));
  EXPECT_THAT(parse({"--plot"}).error().message, HasSubstr("draw it yourself"));
  EXPECT_THAT(parse({"--mode", "c"}).error().message, HasSubstr("a, b"));
  EXPECT_FALSE(parse({"word"}).ok());
  EXPECT_FALSE(parse({"--mode"}).ok());
}

TEST(BenchOptions, WhatHasNoEffectIsToldOnce) {
  const auto options = parse({"--tokenizer", "x"});
  ASSERT_TRUE(options.ok());
  ASSERT_EQ(options->warnings().size(), 1u);
  EXPECT_THAT(options->warnings()[0], HasSubstr("the server has one"));
}

TEST(BenchOptions, TheFirstWrongValueIsTheStatus) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"--random-input-len", "0"}, "--random-input-len"},
      {{"--random-input-len", "1.5"}, "--random-input-len"},
      {{"--random-input-len", "99999999999"}, "--random-input-len"},
      {{"--rate", "-1"}, "--rate"},
      {{"--rate", "nan"}, "--rate"},
      {{"--batch-size", "1", "x"}, "--batch-size"},
      {{"--body", "[1]"}, "--body"}};
  for (const auto& [words, name] : wrong) {
    auto options = parse(words);
    ASSERT_TRUE(options.ok()) << name;
    options->whole("random-input-len", 1);
    if (options->given("rate")) {
      options->number("rate", 0, 10);
    }
    options->wholes("batch-size", 1);
    options->object("body");
    ASSERT_FALSE(options->status().ok()) << words.back();
    EXPECT_THAT(options->status().error().message, HasSubstr(name));
  }
}

TEST(Benchmarks, EveryTableIsReadAndNoNameStandsTwice) {
  for (const Benchmark& benchmark : benchmarks()) {
    std::set<std::string> names;
    for (const Flag& flag : benchmark.rows()) {
      EXPECT_FALSE(flag.help.empty()) << flag.name();
      for (const std::string& name : flag.names) {
        EXPECT_TRUE(names.insert(name).second) << benchmark.name << " " << name;
      }
    }
    EXPECT_TRUE(BenchOptions::parse({}, benchmark.rows(), benchmark.launch).ok()) << benchmark.name;
  }
}

}  // namespace
}  // namespace pome::apps
