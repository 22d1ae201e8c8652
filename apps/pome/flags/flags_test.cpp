#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "pome/flags/command_line.h"
#include "pome/flags/flag.h"
#include "pome/flags/help.h"
#include "pome/flags/settings.h"

namespace pome::apps {
namespace {

std::optional<std::string> nothing(std::string_view) {
  return std::nullopt;
}

TEST(FlagsTest, EveryRowHasNamesAGroupAndWordsForPeople) {
  EXPECT_GT(launch_flags().size(), 250u);
  for (const auto& flag : launch_flags()) {
    EXPECT_FALSE(flag.help.empty()) << flag.name();
    EXPECT_FALSE(flag.group.empty()) << flag.name();
    for (const auto& name : flag.names) {
      EXPECT_TRUE(name.starts_with("--")) << name;
      EXPECT_EQ(find_flag(name), find_flag(flag.name())) << name;
    }
    EXPECT_TRUE(flag.neutral.empty() || flag.treatment != Treatment::honoured) << flag.name();
  }
}

TEST(FlagsTest, NamesAreFoundWithUnderscoresAndWithoutDashes) {
  EXPECT_EQ(find_flag("model_path"), find_flag("--model-path"));
  EXPECT_EQ(find_flag("--tp"), find_flag("--tensor-parallel-size"));
  EXPECT_EQ(find_flag("--nothing"), nullptr);
  EXPECT_EQ(find_flag("--port")->variable(), "POME_PORT");
}

TEST(FlagsTest, TheNearestNameIsNamedOnlyWhenItIsNear) {
  EXPECT_EQ(nearest_flag("--prot"), "--port");
  EXPECT_EQ(nearest_flag("--context-lenght"), "--context-length");
  EXPECT_EQ(nearest_flag("--zzzzzzzzzzzz"), "");
}

TEST(FlagsTest, DefaultsPassTheirOwnChecks) {
  for (const auto& flag : launch_flags()) {
    if (flag.treatment == Treatment::honoured && !flag.fallback.empty()) {
      EXPECT_TRUE(Settings::resolve({{flag.name(), {flag.fallback}}}, nothing).ok()) << flag.name();
    }
  }
}

TEST(FlagsTest, EveryRefusedFlagNamesItsReason) {
  for (const auto& flag : launch_flags()) {
    if (flag.treatment != Treatment::refused) {
      continue;
    }
    const std::vector<std::string> values = flag.kind == Kind::toggle
                                                ? std::vector<std::string>()
                                                : std::vector<std::string>{"anything"};
    const auto refused = Settings::resolve({{flag.name(), values}}, nothing);
    ASSERT_FALSE(refused.ok()) << flag.name();
    EXPECT_NE(refused.error().message.find(flag.help), std::string::npos) << flag.name();
    if (!flag.neutral.empty()) {
      const auto accepted = Settings::resolve({{flag.name(), {flag.neutral}}}, nothing);
      ASSERT_TRUE(accepted.ok()) << flag.name();
      EXPECT_TRUE(accepted->warnings().empty()) << flag.name();
    }
  }
}

TEST(FlagsTest, EveryMeaninglessFlagCostsOneWarning) {
  for (const auto& flag : launch_flags()) {
    if (flag.treatment == Treatment::meaningless) {
      const std::vector<std::string> values = flag.kind == Kind::toggle
                                                  ? std::vector<std::string>()
                                                  : std::vector<std::string>{"anything"};
      const auto accepted = Settings::resolve({{flag.name(), values}}, nothing);
      ASSERT_TRUE(accepted.ok()) << flag.name();
      EXPECT_EQ(accepted->warnings().size(), 1u) << flag.name();
    }
  }
}

TEST(FlagsTest, AToggleCanBeSwitchedOffByAFile) {
  const auto off = Settings::resolve({{"--enable-lora", {"false"}}}, nothing);
  EXPECT_TRUE(off.ok()) << "a refused flag that is off asks for nothing";
  EXPECT_FALSE(Settings::resolve({{"--enable-lora", {"maybe"}}}, nothing).ok());
}

TEST(FlagsTest, AToggleThatIsOnByDefaultCanBeSwitchedOffOnTheCommandLine) {
  const auto metrics = [](const std::vector<std::string>& words) {
    const auto line = parse_command_line(words, true, {}, 1);
    EXPECT_TRUE(line.ok());
    return Settings::resolve(line->flags, nothing)->on("--enable-metrics");
  };
  EXPECT_TRUE(metrics({}));
  EXPECT_TRUE(metrics({"--enable-metrics"}));
  EXPECT_FALSE(metrics({"--enable-metrics=false"}));
}

TEST(FlagsTest, AToggleThatIsGivenAWordSaysWhatItTakes) {
  const auto line = parse_command_line({"--log-requests=maybe"}, true, {}, 1);
  ASSERT_FALSE(line.ok());
  EXPECT_EQ(line.error().message, "--log-requests: expected true or false, got 'maybe'");
}

TEST(FlagsTest, BoundsOfBucketsRise) {
  EXPECT_EQ(parse_bounds("0.1 1 2.5"), (std::vector<double>{0.1, 1, 2.5}));
  EXPECT_EQ(parse_bounds(""), std::vector<double>());
  for (const char* bad : {"0", "-1", "1 1", "2 1", "1 x", "1,2"}) {
    EXPECT_EQ(parse_bounds(bad), std::nullopt) << bad;
  }
  EXPECT_FALSE(Settings::resolve({{"--bucket-inter-token-latency", {"2", "1"}}}, nothing).ok());
  const auto given = Settings::resolve({{"--bucket-inter-token-latency", {"1", "2"}}}, nothing);
  EXPECT_EQ(parse_bounds(given->text("--bucket-inter-token-latency")), (std::vector<double>{1, 2}));
}

TEST(FlagsTest, LevelsOfTheRequestLogAreFourAndTheDefaultShowsNoContent) {
  const auto level = [](const char* value) {
    return Settings::resolve({{"--log-requests-level", {value}}}, nothing).ok();
  };
  EXPECT_TRUE(level("0"));
  EXPECT_TRUE(level("3"));
  EXPECT_FALSE(level("4"));
  EXPECT_FALSE(level("-1"));
  EXPECT_LT(Settings::resolve({}, nothing)->integer("--log-requests-level"), 2);
}

TEST(FlagsTest, SizesAreReadWithTheirUnits) {
  EXPECT_EQ(parse_bytes("1073741824"), 1073741824);
  EXPECT_EQ(parse_bytes("1GiB"), 1073741824);
  EXPECT_EQ(parse_bytes("1.5g"), 1610612736);
  EXPECT_EQ(parse_bytes("500MB"), 500'000'000);
  EXPECT_EQ(parse_bytes("0"), 0);
  for (const char* bad : {"", "-1", "1XB", "GiB", "1e30", "nan"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
}

// The value as a setting, or the refusal.
std::string given(const std::string& name, const std::string& value) {
  const auto settings = Settings::resolve({{name, {value}}}, nothing);
  return settings.ok() ? settings->text(name) : settings.error().message;
}

TEST(FlagsTest, AnEmptyValueIsRefusedAsThatOfAVariableThatWasForgotten) {
  for (const auto& flag : launch_flags()) {
    const bool may = flag.kind == Kind::toggle || flag.kind == Kind::list;
    if (flag.treatment == Treatment::honoured && !may) {
      EXPECT_EQ(given(flag.name(), "").find(flag.name() + " (command line): expected "), 0u)
          << flag.name();
    }
  }
  const auto variable = [](std::string_view name) {
    return name == "POME_API_KEY" ? std::optional<std::string>("") : std::nullopt;
  };
  EXPECT_FALSE(Settings::resolve({}, variable).ok()) << "a server that was to have a key has none";
}

TEST(FlagsTest, NumbersAreHeldToTheirRanges) {
  const std::vector<std::tuple<std::string, std::string, std::string>> kEdges = {
      {"--port", "65535", "65536"},
      {"--threads", "256", "257"},
      {"--threads", "1", "0"},
      {"--schedule-conservativeness", "10", "10.5"},
      {"--schedule-conservativeness", "0.001", "0"},
      {"--mlx-clear-cache-steps", "0", "-1"},
      {"--kv-cache-group-size", "128", "256"},
      {"--mlx-cache-limit", "0", "-1"},
      {"--max-memory", "1", "0"},
      {"--page-size", "1024", "1025"},
  };
  for (const auto& [name, good, bad] : kEdges) {
    EXPECT_EQ(given(name, good), good) << name;
    EXPECT_NE(given(name, bad).find(name), std::string::npos) << name << " " << bad;
  }
}

TEST(FlagsTest, ConfigurationFilesAreFlatMappings) {
  const auto given = parse_config("port: 1\ncuda-graph-bs: [1, 2]\nhost:\n# a comment\n", "f");
  ASSERT_TRUE(given.ok());
  ASSERT_EQ(given->size(), 2u);
  EXPECT_EQ((*given)[1].second, (std::vector<std::string>{"1", "2"}));
  EXPECT_TRUE(parse_config("", "f").ok());
  EXPECT_FALSE(parse_config(std::string((1 << 20) + 1, '#'), "f").ok());
  EXPECT_TRUE(parse_config(std::string(1 << 20, '#'), "f").ok());
}

TEST(FlagsTest, WordsAndFlagsMayStandInAnyOrder) {
  const auto line =
      parse_command_line({"--port", "1", "model", "--trust-remote-code"}, true, {}, 1);
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_EQ(line->positionals, std::vector<std::string>{"model"});
  EXPECT_EQ(line->flags.size(), 2u);
  const auto many = parse_command_line({"a", "b"}, true, {}, 1);
  ASSERT_FALSE(many.ok());
  EXPECT_NE(many.error().message.find("'b' is one word too many"), std::string::npos);
}

TEST(FlagsTest, AFlagWithoutItsValueIsNamed) {
  for (const std::string name : {"--port", "--seed"}) {
    const auto line = parse_command_line({name}, true, {{"--seed", "", true, "SEED"}}, 1);
    ASSERT_FALSE(line.ok());
    EXPECT_EQ(line.error().message, name + ": its value is missing");
  }
}

TEST(FlagsTest, HelpFitsItsColumns) {
  for (const std::string& text : {flags_help(false), flags_help(true)}) {
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t end = text.find('\n', begin);
      EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
  EXPECT_EQ(wrapped("aaa bbb ccc", 2, 9), "aaa bbb\n  ccc");
}

}  // namespace
}  // namespace pome::apps
