#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "case_file.h"
#include "text/reasoning/reasoning_parser.h"

namespace pome {
namespace {

std::string read_pieces(const text::ReasoningStyle& style, bool inside,
                        const std::vector<std::string_view>& pieces) {
  text::ReasoningParser parser(style, inside);
  std::vector<text::ReasoningEvent> joined;
  const auto add = [&](const std::vector<text::ReasoningEvent>& events) {
    for (const text::ReasoningEvent& event : events) {
      EXPECT_FALSE(event.text.empty());
      if (!joined.empty() && joined.back().kind == event.kind) {
        joined.back().text += event.text;
      } else {
        joined.push_back(event);
      }
    }
  };
  for (const std::string_view piece : pieces) {
    add(parser.feed(piece));
  }
  add(parser.finish());
  std::string lines;
  for (const text::ReasoningEvent& event : joined) {
    const bool thought = event.kind == text::ReasoningEvent::Kind::reasoning;
    lines += (thought ? "reasoning " : "content ") + to_string(json::value(event.text)) + "\n";
  }
  return lines;
}

TEST(ReasoningStyles, AnyCutOfAnOutputGivesTheSameThoughtsAndContent) {
  for (CaseFile& file : read_case_files(std::filesystem::path(POME_DIALECTS) / "reasoning", 7)) {
    const text::ReasoningStyle* style = text::find_reasoning_style(file.path.stem().string());
    ASSERT_NE(style, nullptr) << file.path;
    EXPECT_GE(file.cases.size(), 15U) << file.path;
    check_case_file(file, [&](const DialectCase& one, const std::vector<std::string_view>& pieces) {
      return read_pieces(*style, one.inside, pieces);
    });
  }
}

TEST(ReasoningStyles, ThoughtsStreamPieceByPiece) {
  text::ReasoningParser parser(*text::find_reasoning_style("qwen3"), false);
  EXPECT_TRUE(parser.feed("<thi").empty());
  EXPECT_TRUE(parser.feed("nk>\n").empty());
  for (const std::string_view piece : {"he", " use", "d", " an", " x"}) {
    const auto events = parser.feed(piece);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].kind, text::ReasoningEvent::Kind::reasoning);
    EXPECT_EQ(events[0].text, piece);
  }
  EXPECT_TRUE(parser.feed("</th").empty());
  const auto events = parser.feed("ink>\n\nYes");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0], (text::ReasoningEvent{.text = "Yes"}));
}

TEST(ReasoningStyles, ThePromptSaysWhetherTheThinkingIsOpen) {
  const auto inside = [](std::string_view name, std::string_view prompt) {
    return text::begins_inside(*text::find_reasoning_style(name), prompt);
  };
  EXPECT_TRUE(inside("qwen3", "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(inside("qwen3", "<|im_start|>assistant\n"));
  EXPECT_FALSE(inside("qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_TRUE(inside("qwen3-thinking", "<|im_start|>assistant\n"));
  EXPECT_FALSE(inside("qwen3-thinking", "<think>\n\n</think>\n\n"));
  EXPECT_TRUE(inside("deepseek-r1", "<｜Assistant｜>"));
  EXPECT_FALSE(inside("deepseek-v3", "<｜Assistant｜></think>"));
  EXPECT_TRUE(inside("deepseek-v3", "<｜Assistant｜><think>"));
  EXPECT_FALSE(inside("gpt-oss", "<|start|>assistant"));
  EXPECT_TRUE(inside("gpt-oss", "<|start|>assistant<|channel|>analysis<|message|>"));
}

TEST(ReasoningStyles, WhatWasSaidSaysWhetherTheThinkingGoesOn) {
  const auto inside = [](std::string_view name, std::string_view said) {
    return text::continues_inside(*text::find_reasoning_style(name), said);
  };
  EXPECT_TRUE(inside("qwen3", "<think>\nFirst"));
  EXPECT_FALSE(inside("qwen3", "<think>\nFirst\n</think>\n\nThe"));
  EXPECT_FALSE(inside("qwen3", "The"));
  EXPECT_TRUE(inside("qwen3-thinking", ""));
  EXPECT_FALSE(inside("qwen3-thinking", "The"));
}

TEST(ReasoningStyles, NamesAreSglangsAndUnknownOnesAreRefused) {
  EXPECT_EQ(text::find_reasoning_style("klingon"), nullptr);
  EXPECT_THAT(text::reasoning_style_names(), testing::Contains("qwen3-thinking"));
}

// The real templates of tests/golden/chat.
TEST(ReasoningStyles, ATemplateShowsItsStyle) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"qwen2.5", ""},        {"qwen3", "qwen3"}, {"qwen3.5", "qwen3"}, {"llama3.1", ""},
      {"gpt_oss", "gpt-oss"}, {"smollm2", ""},    {"gemma3", ""},
  };
  for (const auto& [name, style] : expected) {
    std::ifstream in(std::filesystem::path(POME_SOURCE_DIR) / "tests" / "golden" / "chat" /
                     (name + ".json"));
    const auto golden = parse_json(
        std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()});
    ASSERT_TRUE(golden) << name;
    const auto source = find_string(golden->as_object(), "template");
    ASSERT_TRUE(source) << name;
    const text::ReasoningStyle* guess = text::guess_reasoning_style(*source);
    EXPECT_EQ(guess ? guess->name : "", style) << name;
  }
}

}  // namespace
}  // namespace pome
