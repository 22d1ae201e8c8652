#include <gtest/gtest.h>

#include "base/json.h"
#include "text/answer/answer_parser.h"
#include "text/answer/token_parts.h"

namespace pome::text {
namespace {

// "thought|content|call(arguments)", whatever the cut.
std::string read(const AnswerReading& reading, std::string_view text, size_t piece) {
  AnswerParser parser(reading);
  std::string thought;
  std::string content;
  std::string calls;
  bool finished = false;
  const auto add = [&](const AnswerDelta& delta) {
    EXPECT_FALSE(finished && !(delta.reasoning + delta.content).empty());
    finished = finished || delta.finished;
    thought += delta.reasoning;
    content += delta.content;
    for (const ToolEvent& event : delta.calls) {
      calls += event.kind == ToolEvent::Kind::call_begins ? event.text + "("
               : event.kind == ToolEvent::Kind::call_ends ? ")"
                                                          : event.text;
    }
  };
  for (size_t at = 0; at < text.size(); at += piece) {
    add(parser.feed(text.substr(at, piece)));
  }
  add(parser.finish());
  return thought + "|" + content + "|" + calls + (finished ? " finished" : "");
}

void expect_at_every_cut(const AnswerReading& reading, std::string_view text,
                         const std::string& expected) {
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    EXPECT_EQ(read(reading, text, piece), expected) << "in pieces of " << piece;
  }
}

AnswerForms forms(std::string_view calls, std::string_view reasoning) {
  return *choose_answer_forms(calls, reasoning, "");
}

constexpr std::string_view kTwoCalls =
    "<think>\nA </tool_call> here\n</think>\n\nLet me look.\n"
    R"(<tool_call>{"name": "a", "arguments": {"x": "</think>"}}</tool_call>)"
    "\n"
    R"(<tool_call>{"name": "b", "arguments": {}}</tool_call>)";

TEST(AnswerParser, TellsThoughtContentAndCallsApart) {
  expect_at_every_cut({.forms = forms("hermes", "qwen3")}, kTwoCalls,
                      R"(A </tool_call> here|Let me look.|a({"x":"</think>"})b({}))");
}

TEST(AnswerParser, LeavesAloneWhatIsNotToBeRead) {
  expect_at_every_cut({.forms = forms("none", "none")}, kTwoCalls,
                      "|" + std::string(kTwoCalls) + "|");
  const AnswerReading reading{.forms = forms("none", "qwen3")};
  expect_at_every_cut(
      reading, kTwoCalls,
      "A </tool_call> here|" + std::string(kTwoCalls.substr(kTwoCalls.find("Let me"))) + "|");
}

TEST(AnswerParser, EndsWithTheFirstCallWhereOneIsWanted) {
  expect_at_every_cut({.forms = forms("hermes", "qwen3"), .one_call = true}, kTwoCalls,
                      R"(A </tool_call> here|Let me look.|a({"x":"</think>"}) finished)");
  expect_at_every_cut({.forms = forms("hermes", "none"), .one_call = true}, "No call.",
                      "|No call.|");
}

TEST(AnswerParser, HoldsAThoughtUntilItHasEndedWhereAsked) {
  AnswerParser parser({.forms = forms("none", "qwen3"), .reasoning_at_once = true});
  EXPECT_EQ(parser.feed("<think>one two").reasoning, "");
  const AnswerDelta delta = parser.feed(" three</think>Yes");
  EXPECT_EQ(delta.reasoning, "one two three");
  EXPECT_EQ(delta.content, "Yes");
  AnswerParser cut({.forms = forms("none", "qwen3"), .reasoning_at_once = true});
  cut.feed("<think>one");
  EXPECT_EQ(cut.finish().reasoning, "one");
}

// The parts in their order, each as far as it goes before another one comes.
std::string in_order(const AnswerReading& reading, std::string_view text, size_t piece) {
  AnswerParser parser(reading);
  std::string out;
  AnswerPart last = AnswerPart::call;
  const auto add = [&](const AnswerDelta& delta) {
    std::string_view reasoning = delta.reasoning;
    std::string_view content = delta.content;
    auto event = delta.calls.begin();
    for (const AnswerRun& run : delta.order) {
      if (run.part == AnswerPart::call) {
        for (size_t i = 0; i < run.size; ++i, ++event) {
          out += event->kind == ToolEvent::Kind::call_begins ? "|" + event->text : std::string();
        }
      } else {
        std::string_view& from = run.part == AnswerPart::reasoning ? reasoning : content;
        out += (last == run.part ? "" : "|") + std::string(from.substr(0, run.size));
        from.remove_prefix(run.size);
      }
      last = run.part;
    }
    EXPECT_TRUE(reasoning.empty() && content.empty() && event == delta.calls.end());
  };
  for (size_t at = 0; at < text.size(); at += piece) {
    add(parser.feed(text.substr(at, piece)));
  }
  add(parser.finish());
  return out;
}

TEST(AnswerParser, SaysInWhichOrderThePartsCame) {
  const std::string text =
      "<think>Hm</think>\n\nOne.\n"
      R"(<tool_call>{"name": "a", "arguments": {}}</tool_call>)"
      "\nTwo.\n"
      R"(<tool_call>{"name": "b", "arguments": {}}</tool_call>)"
      R"(<tool_call>{"name": "c", "arguments": {}}</tool_call>)";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    EXPECT_EQ(in_order({.forms = forms("hermes", "qwen3")}, text, piece), "|Hm|One.|a|\n\nTwo.|b|c")
        << "in pieces of " << piece;
    EXPECT_EQ(in_order({.forms = forms("hermes", "qwen3"), .reasoning_at_once = true}, text, piece),
              "|Hm|One.|a|\n\nTwo.|b|c")
        << "in pieces of " << piece;
  }
}

// One letter a token: r, c or t (a tool's call).
std::string parts_of(const AnswerReading& reading, const std::vector<std::string>& tokens) {
  AnswerParser parser(reading);
  TokenParts parts;
  std::string letters;
  const auto add = [&](const std::vector<AnswerPart>& decided) {
    for (const AnswerPart part : decided) {
      letters += part == AnswerPart::reasoning ? 'r' : part == AnswerPart::content ? 'c' : 't';
    }
  };
  for (const std::string& token : tokens) {
    add(parts.push(token.size(), parser.feed(token)));
  }
  add(parts.finish(0, parser.finish()));
  return letters;
}

TEST(TokenParts, SayWhichTokensTheContentIsMadeOf) {
  const AnswerReading both{.forms = forms("hermes", "qwen3")};
  EXPECT_EQ(parts_of(both, {"<think>", "\n", "Hm", ".", "</think>", "\n\n", "Yes", "!"}),
            "rrrrrrcc");
  EXPECT_EQ(parts_of(both, {"</", "p", "> a", " <", "b"}), "ccccc");
  EXPECT_EQ(parts_of(both, {"Look", "<tool_call>", R"({"name": "a", "argu)", R"(ments": {}})",
                            "</tool_call>"}),
            "ctttt");
  EXPECT_EQ(parts_of(both, {"<think>", "Hm", "</think>", "", "", "é", "."}), "rrrcccc");
  const AnswerReading at_once{.forms = forms("none", "qwen3"), .reasoning_at_once = true};
  EXPECT_EQ(parts_of(at_once, {"<think>", "Hm", "</think>", "Yes"}), "rrrc");
  EXPECT_EQ(parts_of(at_once, {"<think>", "Hm"}), "rr");
  EXPECT_EQ(parts_of(both, {"", ""}), "cc");
}

TEST(AnswerForms, AreChosenByNameByTemplateOrNotAtAll) {
  const std::string qwen3 =
      "enable_thinking <think> <tool_call>\\n{\"name\": <function-name>}</tool_call>";
  const auto guessed = choose_answer_forms("auto", "auto", qwen3);
  ASSERT_TRUE(guessed);
  EXPECT_EQ(guessed->calls_name(), "hermes");
  EXPECT_EQ(guessed->reasoning_name(), "qwen3");
  EXPECT_EQ(choose_answer_forms("none", "none", qwen3)->calls_name(), "");
  EXPECT_EQ(choose_answer_forms("none", "none", qwen3)->reasoning_name(), "");
  EXPECT_EQ(choose_answer_forms("qwen25", "deepseek-r1", qwen3)->calls_name(), "hermes");
  EXPECT_EQ(choose_answer_forms("auto", "auto", "")->calls_name(), "");
  const auto wrong = choose_answer_forms("klingon", "auto", "");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().field, "tool-call-parser");
  EXPECT_NE(wrong.error().message.find("hermes"), std::string::npos);
  EXPECT_EQ(choose_answer_forms("auto", "klingon", "").error().field, "reasoning-parser");
  for (const std::string& name : tool_call_parser_choices()) {
    EXPECT_TRUE(choose_answer_forms(name, "none", "")) << name;
  }
  for (const std::string& name : reasoning_parser_choices()) {
    EXPECT_TRUE(choose_answer_forms("none", name, "")) << name;
  }
}

TEST(AnswerForms, KnowWhetherTheirMarksAreControlTokens) {
  EXPECT_TRUE(marks_are_among(forms("kimi_k2", "none"), {}));
  EXPECT_FALSE(marks_are_among(forms("hermes", "qwen3"), {"<|im_end|>"}));
  EXPECT_TRUE(marks_are_among(forms("hermes", "none"), {"<|im_end|>", "<tool_call>"}));
  EXPECT_FALSE(marks_are_among(forms("none", "none"), {"<tool_call>", "<think>"}));
  EXPECT_TRUE(marks_are_among(forms("none", "qwen3"), {"<|im_end|>", "</think>"}));
  EXPECT_TRUE(marks_are_among(forms("none", "gpt-oss"), {"<|channel|>"}));
}

}  // namespace
}  // namespace pome::text
