// POST /v1/messages: content blocks streamed and whole, and the same parts as in OpenAI's chats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat_parts.h"
#include "dialect_cases.h"
#include "message_stream.h"
#include "support/http_client.h"

namespace pome::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

json::array anthropic_tools() {
  json::array tools;
  for (const json::value& tool : declared_tools()) {
    const json::object& function = tool.at("function").as_object();
    const json::value* parameters = find(function, "parameters");
    tools.push_back(
        json::object{{"name", function.at("name")},
                     {"input_schema", parameters == nullptr ? json::object() : *parameters}});
  }
  return tools;
}

json::object chat(std::string_view content) {
  return {{"messages", json::array{json::object{{"role", "user"}, {"content", content}}}}};
}

// A message's blocks as the parts of a chat's answer, in which their order is not seen.
std::string parts_of(const json::object& message) {
  std::string reasoning;
  std::string content;
  std::string calls;
  for (const json::value& value : message.at("content").as_array()) {
    const json::object& block = value.as_object();
    const std::string type = find_string(block, "type").value_or("");
    if (type == "tool_use") {
      calls += find_string(block, "name").value() + " " + to_string(block.at("input")) + "\n";
    } else {
      (type == "text" ? content : reasoning) += block.at(type).as_string();
    }
  }
  return "reasoning " + reasoning + "\ncontent " + content + "\n" + calls;
}

std::string parts_of(ChatParts parts) {
  std::istringstream lines(std::exchange(parts.calls, {}));
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    parts.calls +=
        line.substr(0, space) + " " + to_string(parse_json(line.substr(space + 1)).value()) + "\n";
  }
  parts.finish_reason.clear();
  return parts.text();
}

TEST(Messages, OfEveryDialectAreTheSameStreamedWholeAndAsChats) {
  json::object body = chat("x");
  body["tools"] = anthropic_tools();
  json::object openai = chat("x");
  openai["tools"] = declared_tools();
  for_each_case_of_calls(
      [&](const TestServer& server, const DialectCase&, const std::string& place) {
        const json::object whole = message_whole(server, body);
        EXPECT_EQ(to_string(message_streamed(server, body)), to_string(whole)) << place;
        EXPECT_EQ(parts_of(whole), parts_of(ask_whole(server, openai))) << place;
      });
}

TEST(Messages, OfEveryStyleOfReasoningAreTheSameStreamedWholeAndAsChats) {
  for_each_case_of_reasoning([](const TestServer& server, std::string_view content,
                                const DialectCase&, const std::string& place) {
    const json::object whole = message_whole(server, chat(content));
    EXPECT_EQ(to_string(message_streamed(server, chat(content))), to_string(whole)) << place;
    EXPECT_EQ(parts_of(whole), parts_of(ask_whole(server, chat(content)))) << place;
  });
}

constexpr std::string_view kThinksSaysAndCalls =
    "<think>\nWhere?</think>\n\nLook.\n"
    R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>)"
    "\nAnd then?\n"
    R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>)";

json::object with_tools(std::string_view content) {
  json::object body = chat(content);
  body["tools"] = anthropic_tools();
  return body;
}

TEST(Messages, KeepTheOrderOfThoughtsTextAndCalls) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says(kThinksSaysAndCalls);
  const json::object message = message_whole(scripted.server(), with_tools("x"));
  EXPECT_EQ(to_string(message.at("content")),
            R"([{"type":"thinking","thinking":"Where?","signature":"pome-a867d32247216785"},)"
            R"({"type":"text","text":"Look."},)"
            R"({"type":"tool_use","id":"toolu_ID","name":"get_weather","input":{"city":"Paris"}},)"
            R"({"type":"text","text":"\n\nAnd then?"},)"
            R"({"type":"tool_use","id":"toolu_ID","name":"get_weather","input":{"city":"Rome"}}])");
  EXPECT_EQ(message.at("stop_reason"), "tool_use");
  EXPECT_EQ(to_string(message_streamed(scripted.server(), with_tools("x"))), to_string(message));
}

TEST(Messages, WithoutParallelCallsEndWithTheFirst) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says(kThinksSaysAndCalls);
  json::object body = with_tools("x");
  body["tool_choice"] = json::object{{"type", "auto"}, {"disable_parallel_tool_use", true}};
  const json::object message = message_whole(scripted.server(), body);
  EXPECT_EQ(message.at("content").as_array().size(), 3u);
  EXPECT_EQ(message.at("stop_reason"), "tool_use");
  EXPECT_EQ(to_string(message_streamed(scripted.server(), body)), to_string(message));
}

TEST(Messages, ThoughtsCanBeLeftOut) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says("<think>Hm</think>\n\nYes.");
  json::object body = chat("x");
  body["thinking"] = json::object{{"type", "adaptive"}, {"display", "omitted"}};
  const json::object message = message_whole(scripted.server(), body);
  EXPECT_THAT(to_string(message.at("content")),
              HasSubstr(R"([{"type":"thinking","thinking":"","signature":"pome-)"));
  EXPECT_THAT(to_string(message.at("content")), HasSubstr(R"({"type":"text","text":"Yes."}])"));
  EXPECT_EQ(to_string(message_streamed(scripted.server(), body)), to_string(message));
}

TEST(Messages, SayWhyTheyEnded) {
  ScriptedServer scripted(forms("hermes", "none"));
  scripted.says("One two END three");
  const auto end_of = [&](json::object body) {
    const json::object message = message_whole(scripted.server(), body);
    EXPECT_EQ(to_string(message_streamed(scripted.server(), body)), to_string(message));
    return std::string(message.at("stop_reason").as_string()) + " " +
           to_string(message.at("stop_sequence"));
  };
  json::object body = chat("x");
  EXPECT_EQ(end_of(body), "end_turn null");
  body["stop_sequences"] = json::array{"END"};
  EXPECT_EQ(end_of(body), "stop_sequence \"END\"");
  body["max_tokens"] = 3;
  EXPECT_EQ(end_of(body), "max_tokens null");
  scripted.says(std::string(9000, 'z'));  // no digit of an id
  body["max_tokens"] = 100'000;           // more than the context: what it leaves
  EXPECT_EQ(end_of(body), "model_context_window_exceeded null");
}

TEST(Messages, CutShortInACallHaveValidInput) {
  ScriptedServer scripted(forms("hermes", "none"));
  constexpr std::string_view cut =
      R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Par)";
  scripted.says(std::string(cut) + R"(is", "days": 3}}</tool_call>)");
  json::object body = with_tools("x");
  body["max_tokens"] = cut.size();
  const json::object message = message_whole(scripted.server(), body);
  EXPECT_THAT(to_string(message.at("content")), HasSubstr(R"("input":{"city":"Par"})"));
  EXPECT_EQ(message.at("stop_reason"), "max_tokens");
  EXPECT_EQ(to_string(message_streamed(scripted.server(), body)), to_string(message));
}

// What a template shows of a conversation with tools: everything that the request has.
constexpr const char* kShowsAll =
    "{%- for tool in tools or [] %}[{{ tool.function.name }}]{% endfor -%}"
    "{%- for message in messages %}<{{ message.role }}>{{ message.reasoning_content }}|"
    "{{ message.content }}{%- for call in message.tool_calls or [] %}({{ call.id }} "
    "{{ call.function.name }} {{ call.function.arguments.city }}){% endfor %}"
    "{{ message.tool_call_id }}{% endfor -%}"
    "{%- if add_generation_prompt %}<thinks {{ enable_thinking }}>{% endif -%}";

TEST(Messages, ToolsThoughtsAndResultsReachTheTemplate) {
  TestServer server({}, {}, forms("hermes", "qwen3"), kShowsAll);
  json::object body = with_tools("Weather?");
  body["system"] = "Be brief.";
  body["messages"].as_array().push_back(*parse_json(
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"s"},
          {"type":"text","text":"Look."},
          {"type":"tool_use","id":"c1","name":"get_weather","input":{"city":"Paris"}}]})"));
  body["messages"].as_array().push_back(*parse_json(
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"rain"}]})"));
  const std::string said = to_string(message_whole(server, body).at("content"));
  EXPECT_THAT(said, HasSubstr("[get_weather]"));
  EXPECT_THAT(said, HasSubstr("<system>|Be brief.<user>|Weather?"));
  EXPECT_THAT(said, HasSubstr("<assistant>Hm|Look.(c1 get_weather Paris)<tool>|rainc1"));
  EXPECT_THAT(said, HasSubstr("<thinks False>"));
  body["thinking"] = json::object{{"type", "enabled"}, {"budget_tokens", 2000}};
  EXPECT_THAT(to_string(message_whole(server, body).at("content")), HasSubstr("<thinks True>"));
}

TEST(Messages, ALastOneOfTheAssistantIsGoneOnWith) {
  TestServer server({}, {}, {}, kShowsAll);
  json::object body = chat("Count");
  body["messages"].as_array().push_back(
      json::object{{"role", "assistant"}, {"content", "One, two"}});
  const std::string said = to_string(message_whole(server, body).at("content"));
  EXPECT_THAT(said, HasSubstr("<assistant>|One, two\""));
  EXPECT_THAT(said, Not(HasSubstr("<thinks")));
}

TEST(Messages, CountTheirTokensAsTheAnswerDoes) {
  TestServer server({}, {}, forms("hermes", "qwen3"), kShowsAll);
  json::object body = with_tools("Weather?");
  body["system"] = json::array{json::object{{"type", "text"}, {"text", "Be brief."}}};
  const json::object usage = message_whole(server, body).at("usage").as_object();
  body["model"] = "m";
  const HttpReply reply = request(server.port(), "POST", "/v1/messages/count_tokens?beta=true",
                                  to_string(json::value(body)));
  EXPECT_EQ(reply.body, "{\"input_tokens\":" + to_string(usage.at("input_tokens")) + "}");
}

TEST(Messages, AnAbortedOneEndsWithAnError) {
  engine::EchoOptions slow;
  slow.token_delay = std::chrono::milliseconds(20);
  TestServer server(std::move(slow));
  json::object body = chat(std::string(2000, 'a'));
  body["model"] = "m";
  body["max_tokens"] = 2000;
  body["stream"] = true;
  RawConnection connection(server.port());
  connection.send(request_bytes("POST", "/v1/messages", to_string(json::value(body)),
                                {{"Connection", "close"}}));
  connection.receive_until("text_delta", std::chrono::seconds(10));
  EXPECT_EQ(request(server.port(), "POST", "/abort_request", R"({"abort_all":true})").status, 200);
  const std::string rest = connection.receive_all(std::chrono::seconds(10));
  EXPECT_THAT(rest, HasSubstr("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                              "\"api_error\",\"message\":\"the request was aborted\"}"));
  EXPECT_THAT(rest, Not(HasSubstr("message_stop")));
}

TEST(Messages, TheKeyMayStandInAnthropicsHeader) {
  server::ServerOptions options;
  options.api_key = "secret";
  TestServer server({}, std::move(options));
  const std::string body =
      R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}]})";
  const auto status = [&](std::string_view name, std::string_view value) {
    return request(server.port(), "POST", "/v1/messages", body,
                   {{std::string(name), std::string(value)}})
        .status;
  };
  EXPECT_EQ(status("x-api-key", "secret"), 200);
  EXPECT_EQ(status("Authorization", "Bearer secret"), 200);
  EXPECT_EQ(status("x-api-key", "secret2"), 401);
  EXPECT_EQ(status("x-api-key", ""), 401);
  const HttpReply refused = request(server.port(), "POST", "/v1/messages", body);
  EXPECT_EQ(refused.status, 401);
  EXPECT_THAT(refused.body, HasSubstr(R"({"type":"error","error":{"type":"authentication_error")"));
  EXPECT_EQ(refused.header("request-id"), refused.header("X-Request-Id"));
}

}  // namespace
}  // namespace pome::test
