#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/mutated_requests.h"
#include "protocol/ollama/messages.h"
#include "protocol/ollama/replies.h"
#include "protocol/ollama/requests.h"

namespace pome::protocol::ollama {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string chat_with(const std::string& rest) {
  return R"({"model":"m","messages":[{"role":"user","content":"x"}])" +
         (rest.empty() ? "" : "," + rest) + "}";
}

Result<ChatRequest> chat(const std::string& rest) {
  return parse_chat_request(*parse_json(chat_with(rest)), {});
}

Result<GenerateRequest> generate(const std::string& rest) {
  return parse_generate_request(
      *parse_json(R"({"model":"m","prompt":"x")" + (rest.empty() ? "" : "," + rest) + "}"), {});
}

template <typename T>
std::string field_of(const Result<T>& request) {
  if (request) {
    return "none";
  }
  EXPECT_EQ(request.error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(request.error().message.empty());
  return request.error().field;
}

// What the template is given, or the field that is refused.
std::string read(const std::string& list) {
  const auto request =
      parse_chat_request(*parse_json(R"({"model":"m","messages":[)" + list + "]}"), {});
  return request ? to_string(request->messages) : request.error().field;
}

TEST(ChatRequest, StreamsUnlessToldOtherwise) {
  const auto request = chat("");
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->wanted.stream);
  EXPECT_FALSE(request->wanted.generation.max_tokens);
  EXPECT_TRUE(request->wanted.template_variables.empty());
  EXPECT_FALSE(chat(R"("stream":false)")->wanted.stream);
}

TEST(ChatRequest, EveryFieldIsHeldToItsTypeAndRange) {
  EXPECT_EQ(field_of(parse_chat_request(*parse_json(R"({"messages":[]})"), {})), "model");
  EXPECT_EQ(field_of(parse_chat_request(*parse_json("[]"), {})), "");
  for (const auto& [rest, field] : std::vector<std::pair<std::string, std::string>>{
           {R"("model":"")", "model"},
           {R"("model":1)", "model"},
           {R"("messages":{})", "messages"},
           {R"("stream":"no")", "stream"},
           {R"("think":1)", "think"},
           {R"("think":"hard")", "think"},
           {R"("format":"json")", "format"},
           {R"("format":{"type":"object"})", "format"},
           {R"("tools":{})", "tools"},
           {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
           {R"("logprobs":1)", "logprobs"},
           {R"("top_logprobs":2)", "top_logprobs"},
           {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
           {R"("priority":"a")", "priority"},
           {R"("cache_salt":1)", "cache_salt"},
           {R"("extra_key":1)", "extra_key"},
           {R"("options":[])", "options"},
           {R"("options":{"num_predict":"9"})", "options.num_predict"},
           {R"("options":{"temperature":-1})", "options.temperature"},
           {R"("options":{"top_k":0.5})", "options.top_k"},
           {R"("options":{"top_p":2})", "options.top_p"},
           {R"("options":{"min_p":-1})", "options.min_p"},
           {R"("options":{"seed":"a"})", "options.seed"},
           {R"("options":{"stop":[""]})", "options.stop"},
           {R"("options":{"stop":5})", "options.stop"},
           {R"("options":{"repeat_penalty":0})", "options.repeat_penalty"},
           {R"("options":{"presence_penalty":3})", "options.presence_penalty"},
           {R"("options":{"frequency_penalty":-3})", "options.frequency_penalty"},
           {R"("options":{"repeat_last_n":-2})", "options.repeat_last_n"},
           {R"("options":{"repeat_last_n":64,"repeat_penalty":1.1})", "options.repeat_last_n"},
           {R"("options":{"typical_p":0.5})", "options.typical_p"},
           {R"("options":{"tfs_z":0.5})", "options.tfs_z"},
           {R"("options":{"mirostat":1})", "options.mirostat"},
           {R"("options":{"penalize_newline":false})", "options.penalize_newline"},
       }) {
    EXPECT_EQ(field_of(chat(rest)), field) << rest;
  }
}

TEST(ChatRequest, EveryOptionIsRead) {
  const auto request = chat(
      R"("options":{"num_predict":7,"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,"seed":4,
                    "stop":["a","b"],"repeat_penalty":1.5,"presence_penalty":0.5,
                    "frequency_penalty":0.25,"repeat_last_n":-1,"num_ctx":4096,"tfs_z":1},
         "think":"max","logprobs":true,"top_logprobs":2,"keep_alive":"5m","cache_salt":"s")");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const GenerationFields& fields = request->wanted.generation;
  EXPECT_EQ(fields.max_tokens, 7);
  EXPECT_FLOAT_EQ(fields.sampling.temperature, 0.5f);
  EXPECT_EQ(fields.sampling.top_k, 3);
  EXPECT_FLOAT_EQ(fields.sampling.top_p, 0.9f);
  EXPECT_FLOAT_EQ(fields.sampling.min_p, 0.1f);
  EXPECT_EQ(fields.sampling.seed, 4u);
  EXPECT_THAT(fields.stop, ElementsAre("a", "b"));
  EXPECT_FLOAT_EQ(fields.sampling.repetition_penalty, 1.5f);
  EXPECT_FLOAT_EQ(fields.sampling.presence_penalty, 0.5f);
  EXPECT_FLOAT_EQ(fields.sampling.frequency_penalty, 0.25f);
  EXPECT_EQ(fields.top_logprobs, 2);
  EXPECT_EQ(fields.cache_namespace, "1:s");
  EXPECT_TRUE(request->wanted.thinks);
  EXPECT_EQ(to_string(request->wanted.template_variables),
            R"({"reasoning_effort":"high","enable_thinking":true,"thinking":true})");
  EXPECT_THAT(request->wanted.hints, ElementsAre("keep_alive", "options.num_ctx"));
}

TEST(ChatRequest, NoWindowMeansNoPenalties) {
  const auto request = chat(R"("options":{"repeat_last_n":0,"repeat_penalty":1.5})");
  ASSERT_TRUE(request.ok());
  EXPECT_FLOAT_EQ(request->wanted.generation.sampling.repetition_penalty, 1.0f);
  EXPECT_EQ(field_of(chat(R"("options":{"repeat_last_n":64})")), "none");
}

TEST(ChatRequest, NoLimitIsZeroOrLess) {
  for (const char* limit : {"0", "-1", "-2"}) {
    const auto request = chat(std::string(R"("options":{"num_predict":)") + limit + "}");
    EXPECT_FALSE(request->wanted.generation.max_tokens) << limit;
  }
}

TEST(ChatRequest, UnknownFieldsAreNamedHints) {
  const auto request =
      chat(R"("frobnicate":1,"options":{"temprature":1,"n":3},"format":"","think":false)");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_THAT(request->wanted.hints, ElementsAre("frobnicate", "options.temprature", "options.n"));
  EXPECT_EQ(request->wanted.generation.choices, 1) << "a hint changes nothing";
  EXPECT_EQ(to_string(request->wanted.template_variables),
            R"({"enable_thinking":false,"thinking":false})");
}

TEST(Messages, CallsAndResultsGetIdsThatBelongTogether) {
  EXPECT_EQ(read(R"({"role":"user","content":"x"},
                    {"role":"assistant","thinking":"hm","tool_calls":[
                      {"function":{"name":"f","arguments":{"a":1}}},
                      {"id":"mine","function":{"name":"g","arguments":{}}}]},
                    {"role":"tool","tool_name":"g","content":"two"},
                    {"role":"tool","tool_name":"f","content":"one"})"),
            R"([{"role":"user","content":"x"},)"
            R"({"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[)"
            R"({"id":"call00000","type":"function","function":{"name":"f","arguments":{"a":1}}},)"
            R"({"id":"mine","type":"function","function":{"name":"g","arguments":{}}}]},)"
            R"({"role":"tool","content":"two","tool_call_id":"mine","name":"g"},)"
            R"({"role":"tool","content":"one","tool_call_id":"call00000","name":"f"}])");
}

TEST(Messages, BadOnesAreRefusedByName) {
  EXPECT_EQ(read("1"), "messages[0]");
  EXPECT_EQ(read(R"({"content":"x"})"), "messages[0].role");
  EXPECT_EQ(read(R"({"role":"alien","content":"x"})"), "messages[0].role");
  EXPECT_EQ(read(R"({"role":"user","content":[{"type":"text"}]})"), "messages[0].content");
  EXPECT_EQ(read(R"({"role":"user","content":"x","images":["AA=="]})"), "messages[0].images");
  EXPECT_EQ(read(R"({"role":"user","content":"x","images":[]})"),
            R"([{"role":"user","content":"x"}])");
  EXPECT_EQ(read(R"({"role":"assistant","thinking":1})"), "messages[0].thinking");
  EXPECT_EQ(read(R"({"role":"tool","tool_name":1})"), "messages[0].tool_name");
  EXPECT_EQ(read(R"({"role":"tool","tool_call_id":1})"), "messages[0].tool_call_id");
  EXPECT_EQ(read(R"({"role":"assistant","tool_calls":{}})"), "messages[0].tool_calls");
  EXPECT_EQ(read(R"({"role":"assistant","tool_calls":[{}]})"), "messages[0].tool_calls[0]");
  EXPECT_EQ(read(R"({"role":"assistant","tool_calls":[{"function":{}}]})"),
            "messages[0].tool_calls[0].function.name");
  EXPECT_EQ(
      read(R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]})"),
      "messages[0].tool_calls[0].function.arguments");
  EXPECT_EQ(read(R"({"role":"assistant","tool_calls":[{"id":1,"function":{"name":"f"}}]})"),
            "messages[0].tool_calls[0].id");
}

TEST(Messages, TheMostPassAndOneMoreDoesNot) {
  json::array list(kMessagesMax, *parse_json(R"({"role":"user","content":"x"})"));
  std::vector<std::string> hints;
  EXPECT_TRUE(read_messages(list, hints).ok());
  list.push_back(list[0]);
  EXPECT_EQ(read_messages(list, hints).error().field, "messages");
}

TEST(GenerateRequest, EveryFieldIsReadAndHeldToItsType) {
  const auto request = generate(R"("system":"s","context":[1,2],"stream":false)");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->prompt, "x");
  EXPECT_EQ(request->system, "s");
  EXPECT_THAT(request->context, ElementsAre(1, 2));
  EXPECT_TRUE(generate(R"("raw":true)")->raw);
  for (const auto& [rest, field] : std::vector<std::pair<std::string, std::string>>{
           {R"("prompt":1)", "prompt"},
           {R"("system":1)", "system"},
           {R"("raw":1)", "raw"},
           {R"("raw":true,"system":"s")", "raw"},
           {R"("raw":true,"context":[1])", "raw"},
           {R"("context":"x")", "context"},
           {R"("context":[-1])", "context"},
           {R"("suffix":"s")", "suffix"},
           {R"("template":"t")", "template"},
           {R"("images":["AA=="])", "images"},
           {R"("format":"json")", "format"},
           {R"("width":64)", "width"},
           {R"("think":[])", "think"},
       }) {
    EXPECT_EQ(field_of(generate(rest)), field) << rest;
  }
  EXPECT_EQ(field_of(generate(R"("suffix":"","template":"","images":[],"width":0)")), "none");
}

TEST(ShowRequest, TakesTheNameUnderBothItsNames) {
  EXPECT_EQ(*parse_show_request(*parse_json(R"({"model":"a","verbose":true})")), "a");
  EXPECT_EQ(*parse_show_request(*parse_json(R"({"name":"b"})")), "b");
  EXPECT_EQ(parse_show_request(*parse_json("{}")).error().field, "model");
  EXPECT_EQ(parse_show_request(*parse_json(R"({"model":"a","system":"s"})")).error().field,
            "system");
}

TEST(Replies, AreOllamasShapes) {
  using std::chrono::system_clock;
  const system_clock::time_point time(std::chrono::duration_cast<system_clock::duration>(
      std::chrono::nanoseconds(1'700'000'000'000'000'007)));
  EXPECT_THAT(time_text(time), ::testing::StartsWith("2023-11-14T22:13:20.0000000"));
  EXPECT_EQ(to_string(error_body(invalid("no", "x"), "r")), R"({"error":"no"})");
  const Said said{.text = "a", .thinking = "t", .calls = {{"i", "f", {{"x", 1}}}}, .first_call = 2};
  EXPECT_THAT(
      to_string(answer_body(Form::chat, "m", said)),
      HasSubstr(
          R"("message":{"role":"assistant","content":"a","thinking":"t","tool_calls":[{"id":"i",)"
          R"("function":{"index":2,"name":"f","arguments":{"x":1}}}]},"done":false})"));
  const Ended ended{.reason = "stop",
                    .total = std::chrono::nanoseconds(9),
                    .until_first_token = std::chrono::nanoseconds(4),
                    .between_first_and_last = std::chrono::nanoseconds(3),
                    .prompt_tokens = 2,
                    .tokens = 5,
                    .context = std::vector<Token>{1, 2}};
  EXPECT_THAT(to_string(answer_body(Form::generate, "m", {}, &ended)),
              HasSubstr(R"("response":"","done":true,"done_reason":"stop","context":[1,2],)"
                        R"("total_duration":9,"load_duration":0,"prompt_eval_count":2,)"
                        R"("prompt_eval_duration":4,"eval_count":5,"eval_duration":3})"));
}

TEST(Parsers, MutatedRequestsAreParsedOrRefusedAndNothingElse) {
  const std::string good = chat_with(
      R"("options":{"stop":["a"],"num_predict":3},"prompt":"x","context":[1],"think":"low")");
  for_each_mutation(good, [&](const json::value& value, uint64_t seed) {
    const auto request = parse_chat_request(value, {});
    EXPECT_TRUE(request.ok() || !request.error().message.empty()) << "seed " << seed;
    parse_generate_request(value, {}).ok();
    parse_show_request(value).ok();
  });
}

}  // namespace
}  // namespace pome::protocol::ollama
