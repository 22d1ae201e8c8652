#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/anthropic/messages.h"
#include "protocol/anthropic/replies.h"
#include "protocol/mutated_requests.h"

namespace pome::protocol::anthropic {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Result<MessagesRequest> messages(std::string_view text) {
  return parse_messages_request(*parse_json(text), {});
}

// A request with one message and `rest` behind it.
std::string with(const std::string& rest) {
  return R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}])" +
         (rest.empty() ? "" : "," + rest) + "}";
}

std::string of_messages(const std::string& list) {
  return R"({"model":"m","max_tokens":9,"messages":[)" + list + "]}";
}

// What the template is given, or the field that is refused.
std::string read(const std::string& body) {
  const auto request = messages(body);
  return request ? to_string(request->prompt.conversation.messages) : request.error().field;
}

std::string field_of_error(const std::string& body) {
  const auto request = messages(body);
  if (!request) {
    EXPECT_EQ(request.error().code, ErrorCode::invalid_argument);
    EXPECT_FALSE(request.error().message.empty());
    return request.error().field;
  }
  return "none";
}

TEST(MessagesRequest, NeedsModelMessagesAndMaxTokens) {
  EXPECT_EQ(field_of_error(with("")), "none");
  EXPECT_EQ(field_of_error(R"({"max_tokens":9,"messages":[{"role":"user","content":"x"}]})"),
            "model");
  EXPECT_EQ(field_of_error(R"({"model":"m","max_tokens":9})"), "messages");
  EXPECT_EQ(field_of_error(R"({"model":"m","messages":[{"role":"user","content":"x"}]})"),
            "max_tokens");
  EXPECT_EQ(field_of_error("[]"), "");
}

TEST(MessagesRequest, EveryFieldIsHeldToItsTypeAndRange) {
  EXPECT_EQ(field_of_error(of_messages("")), "messages");
  EXPECT_EQ(field_of_error(of_messages("1")), "messages[0]");
  for (const auto& [rest, field] : std::vector<std::pair<std::string, std::string>>{
           {R"("max_tokens":-1)", "max_tokens"},
           {R"("max_tokens":2147483648)", "max_tokens"},
           {R"("max_tokens":"9")", "max_tokens"},
           {R"("model":1)", "model"},
           {R"("stream":1)", "stream"},
           {R"("temperature":-1)", "temperature"},
           {R"("temperature":"hot")", "temperature"},
           {R"("top_p":1.5)", "top_p"},
           {R"("top_k":-2)", "top_k"},
           {R"("top_k":0.5)", "top_k"},
           {R"("stop_sequences":[""])", "stop_sequences"},
           {R"("stop_sequences":[1])", "stop_sequences"},
           {R"("stop_sequences":{})", "stop_sequences"},
           {R"("system":1)", "system"},
           {R"("system":[1])", "system[0]"},
           {R"("system":[{"type":"image"}])", "system[0].type"},
           {R"("system":[{"type":"thinking","thinking":"x"}])", "system[0].type"},
           {R"("thinking":true)", "thinking"},
           {R"("thinking":{})", "thinking.type"},
           {R"("thinking":{"type":"on"})", "thinking.type"},
           {R"("thinking":{"type":"enabled"})", "thinking.budget_tokens"},
           {R"("thinking":{"type":"enabled","budget_tokens":1023})", "thinking.budget_tokens"},
           {R"("thinking":{"type":"adaptive","display":"loud"})", "thinking.display"},
           {R"("thinking":{"type":"disabled","budget":1})", "thinking.budget"},
           {R"("output_config":"low")", "output_config"},
           {R"("output_config":{"effort":"none"})", "output_config.effort"},
           {R"("output_config":{"effort":1})", "output_config.effort"},
           {R"("output_config":{"format":{"type":"json_schema"}})", "output_config.format"},
           {R"("output_config":{"form":1})", "output_config.form"},
           {R"("output_format":{"type":"json_schema"})", "output_format"},
           {R"("context_management":[])", "context_management"},
           {R"("context_management":{"edit":[]})", "context_management.edit"},
           {R"("context_management":{"edits":{}})", "context_management.edits"},
           {R"("context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]})",
            "context_management.edits"},
           {R"("mcp_servers":[{"url":"x"}])", "mcp_servers"},
           {R"("container":"c")", "container"},
           {R"("priority":"first")", "priority"},
           {R"("cache_salt":1)", "cache_salt"},
           {R"("extra_key":1)", "extra_key"},
           {R"("rid":1)", "rid"},
           {R"("max_token":9)", "max_token"},
           {R"("stop":["x"])", "stop"},
           {R"("n":2)", "n"},
       }) {
    EXPECT_EQ(field_of_error(with(rest)), field) << rest;
  }
}

TEST(MessagesRequest, EveryFieldIsReadAndHintsAreNamed) {
  const auto request = messages(with(
      R"("stream":true,"temperature":0.5,"top_p":0.9,"top_k":3,"stop_sequences":["a","b"],
         "rid":"r","priority":2,"cache_salt":"s","metadata":{"user_id":"u"},"service_tier":"auto",
         "mcp_servers":[],"container":null,"speed":"fast","cache_control":{"type":"ephemeral"},
         "thinking":{"type":"enabled","budget_tokens":1024,"display":"omitted"},
         "output_config":{"effort":"max"},
         "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]})"));
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_TRUE(request->stream);
  EXPECT_EQ(request->generation.max_tokens, 9);
  EXPECT_FLOAT_EQ(request->generation.sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(request->generation.sampling.top_p, 0.9f);
  EXPECT_EQ(request->generation.sampling.top_k, 3);
  EXPECT_THAT(request->generation.stop, ElementsAre("a", "b"));
  EXPECT_EQ(request->generation.priority, 2);
  EXPECT_EQ(request->generation.cache_namespace, "1:s");
  EXPECT_EQ(request->rid, "r");
  EXPECT_TRUE(request->prompt.hides_thinking);
  EXPECT_EQ(to_string(request->prompt.template_variables),
            R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"high"})");
  EXPECT_THAT(request->prompt.hints,
              UnorderedElementsAre("metadata", "service_tier", "speed", "cache_control",
                                   "thinking.budget_tokens", "context_management.edits"));
}

TEST(MessagesRequest, AModelThinksWhenItIsTold) {
  EXPECT_EQ(to_string(messages(with(""))->prompt.template_variables),
            R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(
      to_string(messages(with(R"("thinking":{"type":"adaptive"})"))->prompt.template_variables),
      R"({"enable_thinking":true,"thinking":true})");
}

TEST(Conversation, SystemStandsFirstWithoutTheBillingNote) {
  EXPECT_EQ(read(with(R"("system":"s")")),
            R"([{"role":"system","content":"s"},{"role":"user","content":"x"}])");
  EXPECT_EQ(read(with(R"("system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},
                                   {"type":"text","text":"b"}])")),
            R"([{"role":"system","content":"a\nb"},{"role":"user","content":"x"}])");
  const auto noted = messages(with(
      R"("system":[{"type":"text","text":"x-anthropic-billing-header: cch=1f;"},
                   {"type":"text","text":"b"}])"));
  EXPECT_EQ(to_string(noted->prompt.conversation.messages),
            R"([{"role":"system","content":"b"},{"role":"user","content":"x"}])");
  EXPECT_THAT(noted->prompt.hints, ElementsAre("system[0]"));
  EXPECT_EQ(read(with(R"("system":[])")), R"([{"role":"user","content":"x"}])");
}

TEST(Conversation, TurnsOfOneRoleBecomeOne) {
  EXPECT_EQ(read(of_messages(R"({"role":"user","content":"a"},
                                {"role":"user","content":[{"type":"text","text":"b"}]})")),
            R"([{"role":"user","content":"a\nb"}])");
}

TEST(Conversation, CallsResultsAndThoughtsReachTheTemplate) {
  EXPECT_EQ(read(of_messages(
                R"({"role":"user","content":"x"},
                   {"role":"assistant","content":[
                     {"type":"redacted_thinking","data":"??"},
                     {"type":"thinking","thinking":"hm","signature":"s"},
                     {"type":"text","text":"Look."},
                     {"type":"tool_use","id":"t1","name":"f","input":{"a":1}},
                     {"type":"tool_use","id":"t2","name":"g","input":{}}]},
                   {"role":"user","content":[
                     {"type":"tool_result","tool_use_id":"t1","content":"one"},
                     {"type":"tool_result","tool_use_id":"t2","is_error":true,
                      "content":[{"type":"text","text":"two"}]},
                     {"type":"text","text":"Go on."}]})")),
            R"([{"role":"user","content":"x"},)"
            R"({"role":"assistant","content":"Look.","tool_calls":[)"
            R"({"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},)"
            R"({"id":"t2","type":"function","function":{"name":"g","arguments":"{}"}}],)"
            R"("reasoning_content":"hm"},)"
            R"({"role":"tool","tool_call_id":"t1","content":"one"},)"
            R"({"role":"tool","tool_call_id":"t2","content":"Error: two"},)"
            R"({"role":"user","content":"Go on."}])");
}

TEST(Conversation, ACallAloneHasNoContentAndAResultMayHaveNone) {
  EXPECT_EQ(read(of_messages(
                R"({"role":"user","content":"x"},
                   {"role":"assistant",
                    "content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},
                   {"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]})")),
            R"([{"role":"user","content":"x"},)"
            R"({"role":"assistant","content":null,"tool_calls":[)"
            R"({"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
            R"({"role":"tool","tool_call_id":"t","content":""}])");
}

TEST(Conversation, ALastMessageOfTheAssistantIsContinued) {
  const std::string user = R"({"role":"user","content":"x"},)";
  const auto begun = messages(of_messages(user + R"({"role":"assistant","content":"The"})"));
  EXPECT_TRUE(begun->prompt.conversation.ends_with_answer);
  const auto empty = messages(of_messages(user + R"({"role":"assistant","content":""})"));
  EXPECT_FALSE(empty->prompt.conversation.ends_with_answer);
  EXPECT_EQ(to_string(empty->prompt.conversation.messages), R"([{"role":"user","content":"x"}])");
  EXPECT_FALSE(messages(with(""))->prompt.conversation.ends_with_answer);
}

TEST(Conversation, BadBlocksAreRefusedByName) {
  const auto user = [](const std::string& block) {
    return of_messages(R"({"role":"user","content":[)" + block + "]}");
  };
  const auto assistant = [](const std::string& block) {
    return of_messages(R"({"role":"assistant","content":[)" + block + "]}");
  };
  const std::string at = "messages[0].content[0]";
  EXPECT_EQ(read(user("")), "messages[0].content");
  EXPECT_EQ(read(user("1")), at);
  EXPECT_EQ(read(user("{}")), at + ".type");
  EXPECT_EQ(read(user(R"({"type":"image","source":{"type":"base64","data":"x"}})")), at + ".type");
  EXPECT_EQ(read(user(R"({"type":"document","source":{}})")), at + ".type");
  EXPECT_EQ(read(user(R"({"type":"text"})")), at + ".text");
  EXPECT_EQ(read(user(R"({"type":"text","text":1})")), at + ".text");
  EXPECT_EQ(read(user(R"({"type":"text","text":"x","txt":"y"})")), at + ".txt");
  EXPECT_EQ(read(user(R"({"type":"tool_use","id":"a","name":"f","input":{}})")), at + ".type");
  EXPECT_EQ(read(user(R"({"type":"thinking","thinking":"a"})")), at + ".type");
  EXPECT_EQ(read(user(R"({"type":"tool_result","content":"a"})")), at + ".tool_use_id");
  EXPECT_EQ(read(user(R"({"type":"tool_result","tool_use_id":"a"})")), at + ".tool_use_id");
  EXPECT_EQ(read(assistant(R"({"type":"tool_result","tool_use_id":"a"})")), at + ".type");
  EXPECT_EQ(read(assistant(R"({"type":"tool_use","name":"f","input":{}})")), at + ".id");
  EXPECT_EQ(read(assistant(R"({"type":"tool_use","id":"a","input":{}})")), at + ".name");
  EXPECT_EQ(read(assistant(R"({"type":"tool_use","id":"a","name":"f","input":"{}"})")),
            at + ".input");
  EXPECT_EQ(read(assistant(R"({"type":"tool_use","id":"a","name":"f","input":{}})")),
            "messages[0].content");
  EXPECT_EQ(read(assistant(R"({"type":"thinking"})")), at + ".thinking");
  EXPECT_EQ(read(of_messages(R"({"role":"tool","content":"x"})")), "messages[0].role");
  EXPECT_EQ(read(of_messages(R"({"role":"user"})")), "messages[0].content");
  EXPECT_EQ(read(of_messages(R"({"role":"user","content":"x","name":"n"})")), "messages[0].name");
  const std::string called =
      R"({"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},)";
  const auto result = [&](const std::string& rest) {
    return of_messages(called +
                       R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"a",)" +
                       rest + "}]}");
  };
  EXPECT_EQ(read(result(R"("is_error":1)")), "messages[1].content[0].is_error");
  EXPECT_EQ(read(result(R"("content":1)")), "messages[1].content[0].content");
  EXPECT_EQ(read(result(R"("content":[{"type":"image","source":{}}])")),
            "messages[1].content[0].content[0].type");
}

TEST(Conversation, TheMostMessagesPassAndOneMoreDoesNot) {
  const auto list = [](size_t count) {
    std::string text = R"({"role":"user","content":"x"})";
    for (size_t i = 1; i < count; ++i) {
      text += R"(,{"role":"user","content":"x"})";
    }
    return of_messages(text);
  };
  EXPECT_EQ(field_of_error(list(kMessagesMax)), "none");
  EXPECT_EQ(field_of_error(list(kMessagesMax + 1)), "messages");
}

TEST(Tools, BecomeFunctionsForTheTemplate) {
  const auto request = messages(with(
      R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"type":"custom",
                   "cache_control":{"type":"ephemeral"},"strict":false}],
         "tool_choice":{"type":"auto","disable_parallel_tool_use":true})"));
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(to_string(request->prompt.tools.tools),
            R"([{"type":"function","function":{"name":"f","description":"d",)"
            R"("parameters":{"type":"object"}}}])");
  EXPECT_FALSE(request->prompt.tools.parallel_calls);
  EXPECT_THAT(request->prompt.hints, ElementsAre("tools[0].cache_control"));
  const auto none =
      messages(with(R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"none"})"));
  EXPECT_TRUE(none->prompt.tools.tools.empty());
}

TEST(Tools, AreHeldToTheirFields) {
  const auto tool = [](const std::string& text) {
    return field_of_error(with(R"("tools":[)" + text + "]"));
  };
  EXPECT_EQ(tool("1"), "tools[0]");
  EXPECT_EQ(tool(R"({"input_schema":{}})"), "tools[0].name");
  EXPECT_EQ(tool(R"({"name":"f g","input_schema":{}})"), "tools[0].name");
  EXPECT_EQ(tool(R"({"name":")" + std::string(128, 'f') + R"(","input_schema":{}})"), "none");
  EXPECT_EQ(tool(R"({"name":")" + std::string(129, 'f') + R"(","input_schema":{}})"),
            "tools[0].name");
  EXPECT_EQ(tool(R"({"name":"f"})"), "tools[0].input_schema");
  EXPECT_EQ(tool(R"({"name":"f","input_schema":[]})"), "tools[0].input_schema");
  EXPECT_EQ(tool(R"({"name":"f","input_schema":{},"description":1})"), "tools[0].description");
  EXPECT_EQ(tool(R"({"name":"f","input_schema":{},"strict":true})"), "tools[0].strict");
  EXPECT_EQ(tool(R"({"name":"f","input_schema":{},"parameters":{}})"), "tools[0].parameters");
  EXPECT_EQ(tool(R"({"type":"web_search_20250305","name":"web_search"})"), "tools[0].type");
  EXPECT_EQ(tool(R"({"name":"f","input_schema":{},"allowed_callers":["direct"]})"), "none");
  EXPECT_EQ(tool(R"({"name":"f","input_schema":{},"defer_loading":true})"),
            "tools[0].defer_loading");
  EXPECT_EQ(field_of_error(with(R"("tools":{})")), "tools");
  std::string many = R"({"name":"f","input_schema":{}})";
  for (size_t i = 1; i < kToolsMax; ++i) {
    many += R"(,{"name":"f","input_schema":{}})";
  }
  EXPECT_EQ(tool(many), "none");
  EXPECT_EQ(tool(many + R"(,{"name":"f","input_schema":{}})"), "tools");
}

TEST(Tools, AChoiceThatOnlyAGrammarCouldEnforceIsRefused) {
  const auto choice = [](const std::string& text) {
    return field_of_error(
        with(R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":)" + text));
  };
  EXPECT_EQ(choice(R"("auto")"), "tool_choice");
  EXPECT_EQ(choice("{}"), "tool_choice.type");
  EXPECT_EQ(choice(R"({"type":"any"})"), "tool_choice.type");
  EXPECT_EQ(choice(R"({"type":"tool","name":"f"})"), "tool_choice.type");
  EXPECT_EQ(choice(R"({"type":"auto","disable_parallel_tool_use":1})"),
            "tool_choice.disable_parallel_tool_use");
  EXPECT_EQ(choice(R"({"type":"auto","parallel":1})"), "tool_choice.parallel");
  EXPECT_EQ(choice(R"({"type":"auto"})"), "none");
}

TEST(CountRequest, TakesWhatDecidesThePromptAlone) {
  const auto count = [](std::string_view text) { return parse_count_request(*parse_json(text)); };
  const std::string rest = R"("messages":[{"role":"user","content":"x"}])";
  EXPECT_TRUE(count(R"({"model":"m",)" + rest + R"(,"tools":[],"system":"s"})").ok());
  EXPECT_EQ(count("{" + rest + "}").error().field, "model");
  EXPECT_EQ(count(R"({"model":"m",)" + rest + R"(,"max_tokens":5})").error().field, "max_tokens");
  EXPECT_EQ(count(R"({"model":"m",)" + rest + R"(,"stream":true})").error().field, "stream");
}

TEST(Version, IsTheOneThatIsSpoken) {
  EXPECT_TRUE(check_version("2023-06-01").ok());
  EXPECT_EQ(check_version("2024-01-01").error().field, "anthropic-version");
}

TEST(Replies, AreAnthropicsShapes) {
  EXPECT_EQ(to_string(error_body({ErrorCode::queue_full, "full", {}}, "r")),
            R"({"type":"error","error":{"type":"rate_limit_error","message":"full"},)"
            R"("request_id":"r"})");
  EXPECT_EQ(block_delta(1, "text_delta", "text", "a"),
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,"
            "\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n");
  EXPECT_THAT(message_delta({"stop_sequence", "\xff"}, {}), HasSubstr("\"stop_sequence\":\"\xef"));
  EXPECT_EQ(
      to_string(message_body({"msg_1", "m"}, {text_block("x")}, {"end_turn"}, {3, 2, 1})),
      R"({"id":"msg_1","type":"message","role":"assistant","model":"m",)"
      R"("content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","stop_sequence":null,)"
      R"("usage":{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,)"
      R"("output_tokens":1}})");
}

TEST(Parsers, MutatedRequestsAreParsedOrRefusedAndNothingElse) {
  const std::string good = of_messages(
      R"({"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
         {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]})");
  for_each_mutation(good, [&](const json::value& value, uint64_t seed) {
    const auto request = parse_messages_request(value, {});
    EXPECT_TRUE(request.ok() || !request.error().message.empty()) << "seed " << seed;
  });
}

}  // namespace
}  // namespace pome::protocol::anthropic
