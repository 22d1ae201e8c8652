// What models write in each dialect and style, through HTTP: streamed byte by byte and whole, it is
// what the case files say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat_parts.h"
#include "dialect_cases.h"
#include "support/http_client.h"

namespace pome::test {
namespace {

using ::testing::HasSubstr;

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

TEST(Answers, OfEveryDialectOfCallsAreTheSameStreamedAndWhole) {
  json::object body = chat("x");
  body["tools"] = declared_tools();
  for_each_case_of_calls(
      [&](const TestServer& server, const DialectCase& one, const std::string& place) {
        const std::string expected = expected_of(one);
        EXPECT_EQ(ask_whole(server, body).text(), expected) << place;
        EXPECT_EQ(ask_stream(server, body).text(), expected) << place;
      });
}

TEST(Answers, OfEveryStyleOfReasoningAreTheSameStreamedAndWhole) {
  for_each_case_of_reasoning([](const TestServer& server, std::string_view content,
                                const DialectCase& one, const std::string& place) {
    const std::string expected = expected_of(one);
    EXPECT_EQ(ask_whole(server, chat(content)).text(), expected) << place;
    EXPECT_EQ(ask_stream(server, chat(content)).text(), expected) << place;
  });
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
