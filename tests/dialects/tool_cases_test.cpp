#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "case_file.h"
#include "text/tool_parsers/tool_parser.h"

namespace pome {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

text::DeclaredTools declared_tools() {
  const auto tools =
      parse_json(read_file(std::filesystem::path(POME_DIALECTS) / "tools" / "tools.json"));
  EXPECT_TRUE(tools && tools->is_array());
  return text::DeclaredTools(tools->as_array());
}

// The events as the case files say them; holds what the interface promises of their order.
class Transcript {
 public:
  void add(const std::vector<text::ToolEvent>& events) {
    for (const text::ToolEvent& event : events) {
      add(event);
    }
  }

  std::string lines() {
    EXPECT_FALSE(in_call_) << "a call did not end";
    flush_content();
    return lines_;
  }

 private:
  void add(const text::ToolEvent& event) {
    using Kind = text::ToolEvent::Kind;
    switch (event.kind) {
      case Kind::content:
        EXPECT_FALSE(event.text.empty());
        content_ += event.text;
        break;
      case Kind::call_begins:
        EXPECT_FALSE(in_call_);
        flush_content();
        in_call_ = true;
        call_ = "call " + event.text + (event.id.empty() ? "" : " id=" + event.id);
        arguments_.clear();
        break;
      case Kind::arguments:
        EXPECT_TRUE(in_call_);
        EXPECT_FALSE(event.text.empty());
        arguments_ += event.text;
        break;
      case Kind::call_ends: {
        EXPECT_TRUE(in_call_);
        in_call_ = false;
        flush_content();
        const auto parsed = parse_json(arguments_);
        EXPECT_TRUE(parsed && parsed->is_object()) << arguments_;
        lines_ += call_ + " " + arguments_ + (event.whole ? "" : " broken") + "\n";
        break;
      }
    }
  }

  void flush_content() {
    if (!content_.empty()) {
      lines_ += "content " + to_string(json::value(content_)) + "\n";
      content_.clear();
    }
  }

  std::string lines_;
  std::string content_;
  std::string call_;
  std::string arguments_;
  bool in_call_ = false;
};

std::string read_pieces(text::ToolDialect dialect, const text::DeclaredTools& tools,
                        const std::vector<std::string_view>& pieces) {
  text::ToolParser parser(dialect, tools);
  Transcript transcript;
  for (const std::string_view piece : pieces) {
    transcript.add(parser.feed(piece));
  }
  transcript.add(parser.finish());
  return transcript.lines();
}

TEST(ToolDialects, AnyCutOfAnOutputGivesTheSameCallsAndContent) {
  const text::DeclaredTools tools = declared_tools();
  for (CaseFile& file : read_case_files(std::filesystem::path(POME_DIALECTS) / "tools", 12)) {
    std::string name = file.path.stem().string();
    auto dialect = text::find_tool_dialect(name);
    if (!dialect) {
      std::replace(name.begin(), name.end(), '_', '-');
      dialect = text::find_tool_dialect(name);
    }
    ASSERT_TRUE(dialect) << file.path;
    EXPECT_GE(file.cases.size(), 15U) << file.path;
    check_case_file(file, [&](const DialectCase&, const std::vector<std::string_view>& pieces) {
      return read_pieces(*dialect, tools, pieces);
    });
  }
}

TEST(ToolDialects, NamesAndArgumentsComeBeforeTheCallIsComplete) {
  text::ToolParser parser(text::ToolDialect::hermes, declared_tools());
  auto events = parser.feed("<tool_call>\n{\"name\": \"write_file\",");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, text::ToolEvent::Kind::call_begins);
  EXPECT_EQ(events[0].text, "write_file");
  events = parser.feed(" \"arguments\": {\"content\": \"Once upon");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, text::ToolEvent::Kind::arguments);
  EXPECT_EQ(events[0].text, "{\"content\":\"Once upon");
}

TEST(ToolDialects, AStringBetweenTagsStreamsToo) {
  text::ToolParser parser(text::ToolDialect::qwen3_coder, declared_tools());
  const auto events =
      parser.feed("<tool_call>\n<function=write_file>\n<parameter=content>\nOnce \"upon");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].text, "{\"content\":\"Once \\\"upon");
}

TEST(ToolDialects, ContentIsNotHeldBackLongerThanAMarkMayBegin) {
  for (const std::string_view name : {"hermes", "qwen3_coder", "mistral", "kimi_k2", "gemma"}) {
    text::ToolParser parser(*text::find_tool_dialect(name), declared_tools());
    const auto events = parser.feed("The answer is < 5");
    ASSERT_EQ(events.size(), 1U) << name;
    EXPECT_EQ(events[0].text, "The answer is < 5") << name;
  }
}

TEST(ToolDialects, ManyMarksThatBeginNothingAreReadInOnePass) {
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    text += "<tool_call> {\"x\": [";
  }
  text::ToolParser parser(text::ToolDialect::hermes, declared_tools());
  std::string content;
  for (const auto& event : parser.feed(text)) {
    content += event.text;
  }
  for (const auto& event : parser.finish()) {
    content += event.text;
  }
  EXPECT_EQ(content, text);
}

TEST(ToolDialects, ArgumentsDeeperThanTheLimitBreakTheCall) {
  for (const int depth : {63, 64}) {
    const std::string inner = std::string(static_cast<size_t>(depth), '[') + "1" +
                              std::string(static_cast<size_t>(depth), ']');
    const std::string output =
        "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{\"a\": " + inner + "}<｜tool▁call▁end｜>";
    const std::string events =
        read_pieces(text::ToolDialect::deepseekv31, declared_tools(), {output});
    EXPECT_EQ(events.find("broken") != std::string::npos, depth > 63) << depth;
  }
}

TEST(ToolDialects, NamesAreSglangsAndUnknownOnesAreRefused) {
  EXPECT_EQ(text::find_tool_dialect("qwen25"), text::ToolDialect::hermes);
  EXPECT_EQ(text::find_tool_dialect("gpt-oss"), text::ToolDialect::gpt_oss);
  EXPECT_EQ(text::find_tool_dialect("glm47"), text::ToolDialect::glm45);
  EXPECT_FALSE(text::find_tool_dialect("klingon"));
  EXPECT_THAT(text::tool_dialect_names(), testing::Contains("kimi_k2"));
}

// Every level of this schema names itself 32 times: read out whole, it would take for ever.
TEST(ToolDialects, ASchemaThatMultipliesIsGivenUp) {
  std::string options;
  for (int i = 0; i < 32; ++i) {
    options += std::string(i == 0 ? "" : ",") + R"({"$ref":"#/$defs/A"})";
  }
  for (const std::string choice : {"allOf", "anyOf"}) {
    const auto tools =
        parse_json(R"([{"type":"function","function":{"name":"f","parameters":{"properties":{)"
                   R"("x":{"$ref":"#/$defs/A"}},"$defs":{"A":{")" +
                   choice + R"(":[)" + options + R"(]}}}}}])");
    ASSERT_TRUE(tools && tools->is_array());
    EXPECT_TRUE(text::DeclaredTools(tools->as_array()).types_of("f", "x").any()) << choice;
  }
}

// The real templates of tests/golden/chat.
TEST(ToolDialects, ATemplateShowsItsDialect) {
  const std::vector<std::pair<std::string, std::optional<text::ToolDialect>>> expected = {
      {"qwen2.5", text::ToolDialect::hermes},
      {"qwen3", text::ToolDialect::hermes},
      {"qwen3.5", text::ToolDialect::qwen3_coder},
      {"llama3.1", text::ToolDialect::llama3},
      {"llama3.2", text::ToolDialect::llama3},
      {"mistral_nemo", text::ToolDialect::mistral},
      {"deepseek_v3", text::ToolDialect::deepseekv3},
      {"gpt_oss", text::ToolDialect::gpt_oss},
      {"hunyuan3", text::ToolDialect::hunyuan},
      {"phi3.5", std::nullopt},
      {"gemma2", std::nullopt},
      {"smollm2", std::nullopt},
  };
  for (const auto& [name, dialect] : expected) {
    const auto golden = parse_json(read_file(std::filesystem::path(POME_SOURCE_DIR) / "tests" /
                                             "golden" / "chat" / (name + ".json")));
    ASSERT_TRUE(golden) << name;
    const auto source = find_string(golden->as_object(), "template");
    ASSERT_TRUE(source) << name;
    EXPECT_EQ(text::guess_tool_dialect(*source), dialect) << name;
  }
}

}  // namespace
}  // namespace pome
