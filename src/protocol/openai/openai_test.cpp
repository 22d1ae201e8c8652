#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/mutated_requests.h"
#include "protocol/openai/chat.h"
#include "protocol/openai/completions.h"
#include "protocol/openai/fields.h"
#include "protocol/openai/replies.h"

namespace pome::protocol::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ChatRequest> chat(std::string_view text) {
  return parse_chat_request(*parse_json(text), {});
}

std::string with_message(const std::string& rest) {
  return R"({"messages":[{"role":"user","content":"x"}])" + rest + "}";
}

TEST(ChatRequest, TextPartsStayPartsForTheTemplateToJoin) {
  const auto request =
      chat(R"({"messages":[{"role":"developer","content":[{"type":"input_text","text":"a"},)"
           R"({"type":"text","text":"b"}]}]})");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(to_string(request->messages),
            R"([{"role":"developer","content":[{"type":"text","text":"a"},)"
            R"({"type":"text","text":"b"}]}])");
}

TEST(ChatRequest, OtherKeysOfAMessageReachTheTemplate) {
  const auto request = chat(R"({"messages":[{"role":"user","content":"x"},)"
                            R"({"role":"assistant","content":"y","reasoning_content":"z"}]})");
  ASSERT_TRUE(request.ok());
  EXPECT_THAT(to_string(request->messages), HasSubstr("reasoning_content"));
}

TEST(ChatRequest, AnAssistantMayHaveNoContentOnlyWithToolCalls) {
  EXPECT_TRUE(chat(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{}]}]})").ok());
  EXPECT_FALSE(chat(R"({"messages":[{"role":"assistant","content":null}]})").ok());
  EXPECT_FALSE(chat(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[]}]})").ok());
}

TEST(ChatRequest, AnErrorNamesTheMessageAndTheField) {
  const auto bad =
      chat(R"({"messages":[{"role":"user","content":"x"},{"role":"usr","content":"y"}]})");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().field, "messages[1].role");
}

TEST(ChatRequest, AMessageHasKnownFieldsOfTheirTypesOnly) {
  const auto field_of_error = [](const std::string& rest) {
    const auto request = chat(R"({"messages":[{"role":"assistant","content":"x",)" + rest + "}]}");
    return request ? std::string("none") : request.error().field;
  };
  EXPECT_EQ(field_of_error(R"("contents":"y")"), "messages[0].contents");
  EXPECT_EQ(field_of_error(R"("audio":{})"), "messages[0].audio");
  EXPECT_EQ(field_of_error(R"("name":1)"), "messages[0].name");
  EXPECT_EQ(field_of_error(R"("tool_call_id":["x"])"), "messages[0].tool_call_id");
  EXPECT_EQ(field_of_error(R"("reasoning_content":{})"), "messages[0].reasoning_content");
  EXPECT_EQ(field_of_error(R"("tool_calls":{})"), "messages[0].tool_calls");
  EXPECT_EQ(field_of_error(R"("tool_calls":[1])"), "messages[0].tool_calls");
  EXPECT_EQ(field_of_error(R"("name":"n","tool_calls":[{}],"annotations":[])"), "none");
}

TEST(ChatRequest, WhatIsNullInAMessageIsAsIfAbsent) {
  const auto request =
      chat(R"({"messages":[{"role":"assistant","content":"x","name":null,"function_call":null}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(to_string(request->messages), R"([{"role":"assistant","content":"x"}])");
}

TEST(ChatRequest, TheMostMessagesPassAndOneMoreDoesNot) {
  const auto with = [](size_t count) {
    std::string text = R"({"messages":[)";
    for (size_t i = 0; i < count; ++i) {
      text += std::string(i == 0 ? "" : ",") + R"({"role":"user","content":"x"})";
    }
    return text + "]}";
  };
  EXPECT_TRUE(chat(with(kMessagesMax)).ok());
  EXPECT_FALSE(chat(with(kMessagesMax + 1)).ok());
}

TEST(ChatRequest, MaxCompletionTokensWins) {
  const auto request = chat(with_message(R"(,"max_tokens":5,"max_completion_tokens":7)"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->generation.max_tokens, 7);
}

TEST(ChatRequest, LogprobsAreNoneUnlessAskedFor) {
  EXPECT_EQ(chat(with_message(""))->generation.top_logprobs, -1);
  EXPECT_EQ(chat(with_message(R"(,"logprobs":true)"))->generation.top_logprobs, 0);
  EXPECT_EQ(chat(with_message(R"(,"logprobs":true,"top_logprobs":20)"))->generation.top_logprobs,
            20);
}

TEST(ChatRequest, ContinuingTheLastMessageExcludesAGenerationPrompt) {
  const std::string open = R"({"messages":[{"role":"assistant","content":"x"}],)";
  const auto request = chat(open + R"("continue_final_message":true})");
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->add_generation_prompt);
  EXPECT_FALSE(chat(open + R"("continue_final_message":true,"add_generation_prompt":true})").ok());
}

TEST(ChatRequest, PriorityAndSaltReachTheJob) {
  const auto request = chat(with_message(R"(,"priority":3,"cache_salt":"tenant")"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->generation.priority, 3);
  EXPECT_EQ(request->generation.cache_namespace, "6:tenant");
  for (const char* wrong : {R"("priority":"high")", R"("priority":1.5)", R"("priority":2147483648)",
                            R"("cache_salt":7)", R"("extra_key":["a"])", R"("rid":5)"}) {
    const auto refused = chat(with_message(std::string(",") + wrong));
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(wrong, testing::HasSubstr("\"" + refused.error().field + "\""));
  }
  EXPECT_FALSE(chat(with_message(R"(,"cache_salt":")" + std::string(513, 's') + "\"")).ok());
}

TEST(ChatRequest, SaltAndKeyTogetherAreOneNamespace) {
  const auto namespace_of = [](std::string_view fields) {
    return chat(with_message("," + std::string(fields)))->generation.cache_namespace;
  };
  EXPECT_EQ(namespace_of(R"("cache_salt":"","extra_key":"")"), "");
  EXPECT_NE(namespace_of(R"("cache_salt":"a","extra_key":"bc")"),
            namespace_of(R"("cache_salt":"ab","extra_key":"c")"));
  EXPECT_NE(namespace_of(R"("cache_salt":"a")"), namespace_of(R"("extra_key":"a")"));
}

TEST(CompletionRequest, TakesStringsAndTokensAndListsOfBoth) {
  const auto prompts = [](std::string_view text) {
    return parse_completion_request(*parse_json(text), {})->prompts;
  };
  EXPECT_THAT(prompts(R"({"prompt":"a"})"), ElementsAre(Prompt("a")));
  EXPECT_THAT(prompts(R"({"prompt":[1,2]})"), ElementsAre(Prompt(std::vector<Token>{1, 2})));
  EXPECT_THAT(prompts(R"({"prompt":["a",[1]]})"),
              ElementsAre(Prompt("a"), Prompt(std::vector<Token>{1})));
}

TEST(CompletionRequest, HasSixteenTokensByDefault) {
  const auto request = parse_completion_request(*parse_json(R"({"prompt":"a"})"), {});
  EXPECT_EQ(request->generation.max_tokens, 16);
  EXPECT_FALSE(request->max_tokens_named);
}

TEST(CompletionRequest, LogprobsWithEchoAreThePromptsToo) {
  const auto request = [](std::string_view text) {
    return parse_completion_request(*parse_json(text), {});
  };
  EXPECT_EQ(request(R"({"prompt":"a","logprobs":1})")->generation.score_from, -1);
  EXPECT_EQ(request(R"({"prompt":"a","echo":true})")->generation.score_from, -1);
  EXPECT_EQ(request(R"({"prompt":"a","echo":true,"logprobs":0})")->generation.score_from, 0);
  EXPECT_EQ(request(R"({"prompt":"a","echo":true,"max_tokens":0})")->generation.max_tokens, 0);
  EXPECT_EQ(request(R"({"prompt":"a","max_tokens":0})").error().field, "max_tokens");
  EXPECT_EQ(chat(with_message(R"(,"max_tokens":0)")).error().field, "max_tokens");
}

TEST(Replies, CompletionsListTheChosenTokenAmongTheBestAndNullBeforeTheFirst) {
  Choice choice;
  choice.logprobs = {{{.chosen = {1, "a"}, .scored = false, .characters = 1},
                      {.chosen = {2, "\xc3", -3.0f}, .top = {{3, "b", -1.0f}}, .characters = 1},
                      {.chosen = {3, "\xa9", -1.0f}, .top = {{3, "\xa9", -1.0f}}},
                      {.chosen = {4, "c", -2.0f}, .characters = 1}}};
  choice.text_offset = 10;
  const json::object chunk = completion_chunk({}, choice);
  const json::object body =
      chunk.at("choices").as_array()[0].as_object().at("logprobs").as_object();
  EXPECT_EQ(to_string(body.at("token_logprobs")), "[null,-3E0,-1E0,-2E0]");
  EXPECT_EQ(to_string(body.at("top_logprobs")),
            "[null,{\"b\":-1E0,\"\xef\xbf\xbd\":-3E0},{\"\xef\xbf\xbd\":-1E0},{\"c\":-2E0}]");
  EXPECT_EQ(to_string(body.at("text_offset")), "[10,11,12,12]");
}

TEST(Replies, AUsageChunkHasNoChoices) {
  EXPECT_THAT(
      to_string(usage_chunk({.id = "i", .created_s = 1, .model = "m"}, "text_completion",
                            {.prompt_tokens = 1, .completion_tokens = 2})),
      HasSubstr(
          R"("choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3)"));
}

TEST(Fields, EachStandsOnceInItsTable) {
  for (const FieldTable* table : {&chat_fields(), &completion_fields(), &message_fields()}) {
    std::vector<std::string_view> names;
    for (const Field& field : table->fields) {
      names.push_back(field.name);
      EXPECT_TRUE(field.use != FieldUse::refused || !field.note.empty())
          << field.name << ": a refusal says what to do instead";
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  }
}

// A value of a kind that no field takes: an honoured field that reads nothing would let it pass.
TEST(Fields, EveryHonouredFieldIsRead) {
  for (const Field& field : chat_fields().fields) {
    if (field.use != FieldUse::honoured || field.name == "messages") {
      continue;
    }
    const bool takes_objects = field.name == "logit_bias" || field.name == "chat_template_kwargs" ||
                               field.name == "stream_options";
    const std::string value = takes_objects ? "7" : R"({"no":"such"})";
    EXPECT_FALSE(chat(with_message(",\"" + std::string(field.name) + "\":" + value)).ok())
        << field.name;
  }
  for (const Field& field : completion_fields().fields) {
    if (field.use != FieldUse::honoured || field.name == "prompt") {
      continue;
    }
    const bool takes_objects = field.name == "logit_bias" || field.name == "stream_options";
    const std::string text = R"({"prompt":"a",")" + std::string(field.name) +
                             "\":" + (takes_objects ? "7" : R"({"no":"such"})") + "}";
    EXPECT_FALSE(parse_completion_request(*parse_json(text), {}).ok()) << field.name;
  }
}

TEST(Parsers, MutatedRequestsAreParsedOrRefusedAndNothingElse) {
  const std::string good = with_message(
      R"(,"n":2,"stop":["a"],"logit_bias":{"1":2},"logprobs":true,"top_logprobs":3,"seed":5)");
  int parsed = 0;
  for_each_mutation(good, [&](const json::value& value, uint64_t seed) {
    const auto request = parse_chat_request(value, {});
    parse_completion_request(value, {}).ok();
    parsed += request.ok() ? 1 : 0;
    if (!request) {
      EXPECT_EQ(request.error().code, ErrorCode::invalid_argument) << "seed " << seed;
      EXPECT_FALSE(request.error().message.empty());
    }
  });
  EXPECT_GT(parsed, 0);
}

}  // namespace
}  // namespace pome::protocol::openai
