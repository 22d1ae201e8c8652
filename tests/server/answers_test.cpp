// What models write in each dialect and style, through HTTP: streamed byte by byte and whole, it is
// what the case files say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/utf8.h"
#include "case_file.h"
#include "chat_parts.h"
#include "scripted_server.h"
#include "support/http_client.h"

namespace pome::test {
namespace {

using ::testing::HasSubstr;

text::AnswerForms forms(std::string_view calls, std::string_view reasoning) {
  return text::choose_answer_forms(calls, reasoning, "").value();
}

json::array declared_tools() {
  std::ifstream in(std::filesystem::path(POME_DIALECTS) / "tools" / "tools.json");
  return parse_json(std::string{std::istreambuf_iterator<char>(in), {}})->as_array();
}

json::object chat(std::string_view content) {
  return {{"messages", json::array{json::object{{"role", "user"}, {"content", content}}}}};
}

// The case's events as a chat's answer, in which the order of content and calls is not seen.
std::string expected_of(const DialectCase& one) {
  std::string content;
  std::string reasoning;
  std::string calls;
  bool whole = false;
  std::istringstream lines(one.events);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    const std::string kind = line.substr(0, space);
    const std::string rest = line.substr(space + 1);
    if (kind != "call") {
      (kind == "content" ? content : reasoning) += std::string(parse_json(rest)->as_string());
      continue;
    }
    const size_t brace = rest.find('{');
    const bool broken = rest.ends_with(" broken");
    whole = whole || !broken;
    calls += rest.substr(0, rest.find(' ')) + " " +
             rest.substr(brace, rest.size() - brace - (broken ? 7 : 0)) + "\n";
  }
  return "reasoning " + reasoning + "\ncontent " + content + "\n" + calls +
         (whole ? "tool_calls" : "stop");
}

bool can_be_said(const DialectCase& one) {
  return !one.output.empty() && valid_utf8(one.output) == one.output;
}

TEST(Answers, OfEveryDialectOfCallsAreTheSameStreamedAndWhole) {
  for (CaseFile& file : read_case_files(std::filesystem::path(POME_DIALECTS) / "tools", 12)) {
    std::string name = file.path.stem().string();
    std::replace(name.begin(), name.end(), '_', name == "gpt_oss" ? '-' : '_');
    ScriptedServer scripted(forms(name, "none"));
    json::object body = chat("x");
    body["tools"] = declared_tools();
    int said = 0;
    for (const DialectCase& one : file.cases) {
      if (!can_be_said(one)) {
        continue;
      }
      ++said;
      scripted.says(one.output);
      const std::string expected = expected_of(one);
      EXPECT_EQ(ask_whole(scripted.server(), body).text(), expected) << file.path << one.title;
      EXPECT_EQ(ask_stream(scripted.server(), body).text(), expected) << file.path << one.title;
    }
    EXPECT_GE(said, 15) << file.path;
  }
}

TEST(Answers, OfEveryStyleOfReasoningAreTheSameStreamedAndWhole) {
  for (CaseFile& file : read_case_files(std::filesystem::path(POME_DIALECTS) / "reasoning", 7)) {
    const text::AnswerForms style = forms("none", file.path.stem().string());
    ScriptedServer scripted(style);
    for (const DialectCase& one : file.cases) {
      if (!can_be_said(one)) {
        continue;
      }
      // The template is the message's content: what the prompt ends with opens or closes.
      const std::string_view close = style.reasoning->begins_inside ? style.reasoning->close : "x";
      const json::object body = chat(one.inside ? style.reasoning->open : close);
      scripted.says(one.output);
      const std::string expected = expected_of(one);
      EXPECT_EQ(ask_whole(scripted.server(), body).text(), expected) << file.path << one.title;
      EXPECT_EQ(ask_stream(scripted.server(), body).text(), expected) << file.path << one.title;
    }
  }
}

constexpr std::string_view kThinksAndCalls =
    "<think>\nWhere? Paris.</think>\n\nLet me look.\n"
    R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>)"
    "\n"
    R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>)";

json::object with_tools(std::string_view content) {
  json::object body = chat(content);
  body["tools"] = declared_tools();
  return body;
}

TEST(Answers, StreamTheirPartsAsTheyCome) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says(kThinksAndCalls);
  const ChatParts parts = ask_stream(scripted.server(), with_tools("x"));
  EXPECT_EQ(parts.text(),
            "reasoning Where? Paris.\ncontent Let me look.\nget_weather {\"city\":\"Paris\"}\n"
            "get_weather {\"city\":\"Rome\"}\ntool_calls");
  EXPECT_GT(parts.reasoning_chunks, 5);
  EXPECT_GT(parts.argument_chunks, 10);
}

TEST(Answers, WithoutParallelCallsEndWithTheFirst) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says(kThinksAndCalls);
  json::object body = with_tools("x");
  body["parallel_tool_calls"] = false;
  const std::string expected =
      "reasoning Where? Paris.\ncontent Let me look.\nget_weather {\"city\":\"Paris\"}\ntool_calls";
  const ChatParts whole = ask_whole(scripted.server(), body);
  EXPECT_EQ(whole.text(), expected);
  EXPECT_LT(whole.usage.at("completion_tokens").as_int64(), 130) << "the rest was generated too";
  EXPECT_EQ(ask_stream(scripted.server(), body).text(), expected);
}

TEST(Answers, AreNotReadForWhatTheRequestDoesNotWant) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says(kThinksAndCalls);
  const std::string text(kThinksAndCalls);
  json::object no_tools = with_tools("x");
  no_tools["tool_choice"] = "none";
  no_tools["separate_reasoning"] = false;
  EXPECT_EQ(ask_whole(scripted.server(), no_tools).text(),
            "reasoning \ncontent " + text + "\nstop");
  EXPECT_EQ(ask_stream(scripted.server(), no_tools).text(),
            "reasoning \ncontent " + text + "\nstop");
  json::object at_once = with_tools("x");
  at_once["stream_reasoning"] = false;
  const ChatParts parts = ask_stream(scripted.server(), at_once);
  EXPECT_EQ(parts.reasoning, "Where? Paris.");
  EXPECT_EQ(parts.reasoning_chunks, 1);
}

TEST(Answers, CutShortEndWithLengthAndValidArguments) {
  ScriptedServer scripted(forms("hermes", "none"));
  constexpr std::string_view cut =
      R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Par)";
  scripted.says(std::string(cut) + R"(is", "days": 3}}</tool_call>)");
  json::object body = with_tools("x");
  body["max_tokens"] = cut.size();
  const std::string expected = "reasoning \ncontent \nget_weather {\"city\":\"Par\"}\nlength";
  EXPECT_EQ(ask_whole(scripted.server(), body).text(), expected);
  EXPECT_EQ(ask_stream(scripted.server(), body).text(), expected);
}

TEST(Answers, CountTheirReasoningAndGiveLogprobsOfTheContentAlone) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says("<think>Hmm</think>\n\nYes.");
  json::object body = chat("x");
  body["logprobs"] = true;
  for (const ChatParts& parts :
       {ask_whole(scripted.server(), body), ask_stream(scripted.server(), body)}) {
    EXPECT_EQ(parts.content, "Yes.");
    EXPECT_EQ(parts.content_logprobs, 4);
    EXPECT_EQ(parts.usage.at("completion_tokens_details").at("reasoning_tokens").as_int64(), 20);
  }
}

// What was held back as the beginning of a stop string belongs to the content when nothing follows.
TEST(Answers, CountWhatWasHeldBackUntilTheEndAsContent) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says("<think>Hmm</think>EN");
  json::object body = chat("x");
  body["logprobs"] = true;
  body["stop"] = json::array{"END"};
  for (const ChatParts& parts :
       {ask_whole(scripted.server(), body), ask_stream(scripted.server(), body)}) {
    EXPECT_EQ(parts.content, "EN");
    EXPECT_EQ(parts.content_logprobs, 2);
    EXPECT_EQ(parts.usage.at("completion_tokens_details").at("reasoning_tokens").as_int64(), 18);
  }
}

TEST(Answers, ToolsAndTheirResultsReachTheTemplate) {
  const std::string chat_template =
      "{%- for tool in tools or [] %}[{{ tool.function.name }}]{% endfor -%}"
      "{%- for message in messages %}<{{ message.role }}>{{ message.content }}"
      "{%- for call in message.tool_calls or [] %}({{ call.id }} {{ call.function.name }} "
      "{{ call.function.arguments.city }}){% endfor %}{{ message.tool_call_id }}{% endfor -%}"
      "{%- if enable_thinking is defined %}thinks {{ enable_thinking }}{% endif -%}";
  engine::EchoOptions options;
  TestServer server(std::move(options), {}, forms("hermes", "qwen3"), chat_template);
  json::object body = with_tools("Weather?");
  body["messages"].as_array().push_back(
      *parse_json(R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
          "function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]})"));
  body["messages"].as_array().push_back(
      *parse_json(R"({"role":"tool","tool_call_id":"c1","content":"rain \u001b[0m"})"));
  body["chat_template_kwargs"] = json::object{{"enable_thinking", false}};
  const std::string said = ask_whole(server, body).content;
  EXPECT_THAT(said, HasSubstr("[get_weather]"));
  EXPECT_THAT(said, HasSubstr("(c1 get_weather Paris)"));
  EXPECT_THAT(said, HasSubstr("<tool>rain \x1b[0mc1"));
  EXPECT_THAT(said, HasSubstr("thinks False"));
  body["tool_choice"] = "none";
  EXPECT_THAT(ask_whole(server, body).content, ::testing::Not(HasSubstr("[get_weather]")));
}

}  // namespace
}  // namespace pome::test
