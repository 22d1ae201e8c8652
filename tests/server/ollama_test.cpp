// /api/chat and /api/generate: lines streamed and whole, and the same parts as in OpenAI's chats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat_parts.h"
#include "dialect_cases.h"
#include "support/http_client.h"

namespace pome::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

json::object chat(std::string_view content) {
  return {{"model", "m"},
          {"messages", json::array{json::object{{"role", "user"}, {"content", content}}}}};
}

std::vector<json::object> ask(const TestServer& server, const char* path, json::object body,
                              bool stream) {
  body["stream"] = stream;
  const HttpReply reply = request(server.port(), "POST", path, to_string(json::value(body)));
  EXPECT_EQ(reply.status, 200) << reply.body.substr(0, 500);
  EXPECT_EQ(reply.header("Content-Type"), stream ? "application/x-ndjson" : "application/json");
  std::vector<json::object> lines;
  std::istringstream text(reply.body);
  for (std::string line; std::getline(text, line);) {
    const auto value = parse_json(line);
    EXPECT_TRUE(value.ok()) << line;
    lines.push_back(value->as_object());
    EXPECT_FALSE(lines.size() > 1 && lines[lines.size() - 2].at("done").as_bool());
  }
  EXPECT_TRUE(!lines.empty() && lines.back().at("done").as_bool());
  return lines;
}

// What lines add up to: the last with the message put together, without ids and times.
json::object sum(const std::vector<json::object>& lines) {
  json::object whole = lines.back();
  std::string content;
  std::string thinking;
  json::array calls;
  json::array logprobs;
  for (const json::object& line : lines) {
    const json::object& said = line.contains("message") ? line.at("message").as_object() : line;
    content += find_string(said, line.contains("message") ? "content" : "response").value();
    thinking += find_string(said, "thinking").value_or("");
    if (const json::array* list = find_array(said, "tool_calls")) {
      for (const json::value& call : *list) {
        EXPECT_EQ(call.at("function").at("index").as_int64(), static_cast<int64_t>(calls.size()));
        EXPECT_FALSE(call.at("id").as_string().empty());
        calls.push_back(call.at("function"));
      }
    }
    if (const json::array* list = find_array(line, "logprobs")) {
      logprobs.insert(logprobs.end(), list->begin(), list->end());
    }
  }
  whole.erase("message");
  whole.erase("response");
  whole["thinking"] = thinking;
  whole["content"] = content;
  whole["tool_calls"] = calls;
  whole["logprobs"] = logprobs;
  for (const char* name : {"total_duration", "prompt_eval_duration", "eval_duration"}) {
    EXPECT_GE(whole.at(name).as_int64(), 0);
    whole.erase(name);
  }
  whole.erase("created_at");
  // In one order, whatever the lines'.
  json::object sorted;
  for (const char* name : {"thinking", "content", "tool_calls", "logprobs", "done_reason",
                           "prompt_eval_count", "eval_count", "context"}) {
    if (const json::value* value = find(whole, name)) {
      sorted[name] = *value;
    }
  }
  return sorted;
}

json::object whole(const TestServer& server, const json::object& body,
                   const char* path = "/api/chat") {
  const auto lines = ask(server, path, body, false);
  EXPECT_EQ(lines.size(), 1u);
  return sum(lines);
}

json::object streamed(const TestServer& server, const json::object& body,
                      const char* path = "/api/chat") {
  return sum(ask(server, path, body, true));
}

std::string parts_of(const json::object& answer) {
  std::string calls;
  for (const json::value& call : answer.at("tool_calls").as_array()) {
    calls += find_string(call.as_object(), "name").value() + " " + to_string(call.at("arguments")) +
             "\n";
  }
  return "reasoning " + std::string(answer.at("thinking").as_string()) + "\ncontent " +
         std::string(answer.at("content").as_string()) + "\n" + calls;
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

void expect_same_answers(const TestServer& server, const json::object& body,
                         const std::string& place) {
  const json::object answer = whole(server, body);
  EXPECT_EQ(to_string(streamed(server, body)), to_string(answer)) << place;
  EXPECT_EQ(parts_of(answer), parts_of(ask_whole(server, body))) << place;
}

TEST(OllamaChats, OfEveryDialectAreTheSameStreamedWholeAndAsOpenAIs) {
  json::object body = chat("x");
  body["tools"] = declared_tools();
  for_each_case_of_calls(
      [&](const TestServer& server, const DialectCase&, const std::string& place) {
        expect_same_answers(server, body, place);
      });
}

TEST(OllamaChats, OfEveryStyleOfReasoningAreTheSameStreamedWholeAndAsOpenAIs) {
  for_each_case_of_reasoning(
      [](const TestServer& server, std::string_view content, const DialectCase&,
         const std::string& place) { expect_same_answers(server, chat(content), place); });
}

TEST(OllamaChats, GiveEachCallWholeAsSoonAsSomethingFollowsIt) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says(
      "<think>Hm</think>\n\nLook.\n"
      R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)"
      "\nAnd:\n"
      R"(<tool_call>{"name": "g", "arguments": {}}</tool_call>)");
  json::object body = chat("x");
  body["tools"] = *parse_json(
      R"([{"type":"function","function":{"name":"f"}},
          {"type":"function","function":{"name":"g"}}])");
  std::string order;
  for (const json::object& line : ask(scripted.server(), "/api/chat", body, true)) {
    const json::object& said = line.at("message").as_object();
    const std::string now = said.contains("tool_calls")               ? "call "
                            : said.contains("thinking")               ? "thought "
                            : !said.at("content").as_string().empty() ? "text "
                                                                      : "";
    if (!order.ends_with(now) || now == "call ") {
      order += now;
    }
  }
  EXPECT_EQ(order, "thought text call text call ");
}

TEST(OllamaChats, HaveLogProbabilitiesOfTheirText) {
  ScriptedServer scripted(forms("hermes", "qwen3"));
  scripted.says("<think>Hm</think>\n\nYes.");
  json::object body = chat("x");
  body["logprobs"] = true;
  body["top_logprobs"] = 2;
  const json::object answer = whole(scripted.server(), body);
  EXPECT_EQ(answer.at("logprobs").as_array().size(), 4u);
  EXPECT_EQ(answer.at("logprobs").at(0).at("token"), "Y");
  EXPECT_EQ(answer.at("logprobs").at(0).at("top_logprobs").as_array().size(), 2u);
  EXPECT_EQ(to_string(streamed(scripted.server(), body)), to_string(answer));
}

TEST(OllamaChats, SayWhyTheyEnded) {
  ScriptedServer scripted(forms("hermes", "none"));
  scripted.says("One two END three");
  const auto reason = [&](const char* options) {
    json::object body = chat("x");
    body["options"] = *parse_json(options);
    const json::object answer = whole(scripted.server(), body);
    EXPECT_EQ(to_string(streamed(scripted.server(), body)), to_string(answer));
    return std::string(answer.at("done_reason").as_string()) + " " +
           std::string(answer.at("content").as_string());
  };
  EXPECT_EQ(reason("{}"), "stop One two END three");
  EXPECT_EQ(reason(R"({"stop":["END"]})"), "stop One two ");
  EXPECT_EQ(reason(R"({"num_predict":3})"), "length One");
}

// What a template shows of a conversation with tools: everything that the request has.
constexpr const char* kShowsAll =
    "{%- for tool in tools or [] %}[{{ tool.function.name }}]{% endfor -%}"
    "{%- for message in messages %}<{{ message.role }}>{{ message.reasoning_content }}|"
    "{{ message.content }}{%- for call in message.tool_calls or [] %}({{ call.id }} "
    "{{ call.function.name }} {{ call.function.arguments.city }}){% endfor %}"
    "{{ message.tool_call_id }}{% endfor -%}"
    "{%- if add_generation_prompt %}<thinks {{ enable_thinking }} {{ reasoning_effort }}>{% endif "
    "-%}";

TEST(OllamaChats, ToolsThoughtsAndResultsReachTheTemplate) {
  TestServer server({}, {}, forms("hermes", "qwen3"), kShowsAll);
  json::object body = chat("Weather?");
  body["tools"] = declared_tools();
  body["messages"].as_array().push_back(*parse_json(
      R"({"role":"assistant","thinking":"Hm","content":"Look.",
          "tool_calls":[{"function":{"name":"get_weather","arguments":{"city":"Paris"}}}]})"));
  body["messages"].as_array().push_back(
      *parse_json(R"({"role":"tool","tool_name":"get_weather","content":"rain"})"));
  body["think"] = "low";
  const std::string said(whole(server, body).at("content").as_string());
  EXPECT_THAT(said, HasSubstr("[get_weather]"));
  EXPECT_THAT(said, HasSubstr("<user>|Weather?<assistant>Hm|Look.(call00000 get_weather Paris)"));
  EXPECT_THAT(said, HasSubstr("<tool>|raincall00000"));
  EXPECT_THAT(said, HasSubstr("<thinks True low>"));
}

TEST(OllamaChats, WithoutThoughtsRefuseToThink) {
  TestServer server;
  json::object body = chat("x");
  body["think"] = true;
  const HttpReply reply = request(server.port(), "POST", "/api/chat", to_string(json::value(body)));
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr(R"({"error":"'think': )"));
  body["think"] = false;
  EXPECT_EQ(whole(server, body).at("content"), "x");
}

TEST(OllamaGenerations, GoOnWithTheirContext) {
  TestServer server({}, {}, {},
                    "{%- for message in messages %}<{{ message.content }}>{% endfor -%}");
  json::object body{{"model", "m"}, {"prompt", "one"}, {"system", "s"}};
  const json::object first = whole(server, body, "/api/generate");
  EXPECT_EQ(first.at("content"), "<s><one>");
  EXPECT_EQ(to_string(streamed(server, body, "/api/generate")), to_string(first));
  // The prompt, the answer and the token that ended it.
  EXPECT_EQ(first.at("context").as_array().size(), 8u + 8u + 1u);
  body["prompt"] = "two";
  body["context"] = first.at("context");
  body.erase("system");
  EXPECT_THAT(std::string(whole(server, body, "/api/generate").at("content").as_string()),
              HasSubstr("<s><one><s><one>"));
  body["context"] = json::array{1, 100'000};
  EXPECT_THAT(request(server.port(), "POST", "/api/generate", to_string(json::value(body))).body,
              HasSubstr("'context': expected token ids in [0, 257), got 100000"));
}

TEST(OllamaGenerations, RawAreThePromptAsItStands) {
  TestServer server({}, {}, {}, "templated");
  json::object body{{"model", "m"}, {"prompt", "as it is"}};
  EXPECT_EQ(whole(server, body, "/api/generate").at("content"), "templated");
  body["raw"] = true;
  const json::object answer = whole(server, body, "/api/generate");
  EXPECT_EQ(answer.at("content"), "as it is");
  EXPECT_FALSE(answer.contains("context"));
}

TEST(OllamaGenerations, AnAbortedOneEndsWithAnError) {
  engine::EchoOptions slow;
  slow.token_delay = std::chrono::milliseconds(20);
  TestServer server(std::move(slow));
  RawConnection connection(server.port());
  connection.send(
      request_bytes("POST", "/api/generate",
                    R"({"model":"m","raw":true,"prompt":")" + std::string(2000, 'a') + "\"}",
                    {{"Connection", "close"}}));
  connection.receive_until("\"response\":\"a\"", std::chrono::seconds(10));
  EXPECT_EQ(request(server.port(), "POST", "/abort_request", R"({"abort_all":true})").status, 200);
  const std::string rest = connection.receive_all(std::chrono::seconds(10));
  EXPECT_THAT(rest, HasSubstr("{\"error\":\"the request was aborted\"}\n"));
  EXPECT_THAT(rest, Not(HasSubstr("\"done\":true")));
}

TEST(OllamaModels, AreNamedWithOrWithoutTheirTag) {
  server::ServerOptions options;
  options.serving.served_model_name = "served";
  options.serving.strict_model_name = true;
  TestServer server({}, std::move(options), forms("hermes", "qwen3"));
  const auto show = [&](const char* name) {
    return request(server.port(), "POST", "/api/show", to_string(json::object{{"model", name}}));
  };
  EXPECT_EQ(show("served").status, 200);
  EXPECT_EQ(show("served:latest").status, 200);
  EXPECT_EQ(show("served:7b").status, 404);
  EXPECT_EQ(show("other").status, 404);
  EXPECT_THAT(show("served").body,
              HasSubstr(R"("capabilities":["completion","tools","thinking"])"));
  json::object body = chat("x");
  EXPECT_EQ(request(server.port(), "POST", "/api/chat", to_string(json::value(body))).status, 404);
}

}  // namespace
}  // namespace pome::test
