#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/mutated_requests.h"
#include "protocol/native/fields.h"
#include "protocol/native/generate.h"
#include "protocol/native/profile.h"
#include "protocol/native/tokenize.h"

namespace pome::protocol::native {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<GenerateRequest> generate(std::string_view text) {
  return parse_generate_request(*parse_json(text), {});
}

TEST(GenerateRequest, DefaultsTo128TokensThatYieldToTheContext) {
  const auto request = generate(R"({"text":"a"})");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->generations[0].max_tokens, 128);
  EXPECT_FALSE(request->max_tokens_named[0]);
  EXPECT_FALSE(request->list);
}

TEST(GenerateRequest, OneSamplingObjectServesEveryPrompt) {
  const auto request = generate(R"({"text":["a","b"],"sampling_params":{"temperature":0}})");
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->list);
  ASSERT_EQ(request->generations.size(), 2u);
  EXPECT_EQ(request->generations[1].sampling.temperature, 0.0f);
}

TEST(GenerateRequest, AListOfSamplingObjectsNeedsOneAPrompt) {
  EXPECT_TRUE(generate(R"({"text":["a","b"],"sampling_params":[{},{"n":2}]})").ok());
  EXPECT_EQ(generate(R"({"text":["a","b"],"sampling_params":[{}]})").error().field,
            "sampling_params");
  EXPECT_EQ(generate(R"({"text":["a","b"],"sampling_params":[{},{"n":0}]})").error().field,
            "sampling_params[1].n");
}

TEST(GenerateRequest, TextAndInputIdsExcludeEachOther) {
  EXPECT_FALSE(generate(R"({"text":"a","input_ids":[1]})").ok());
  EXPECT_FALSE(generate(R"({})").ok());
  EXPECT_TRUE(generate(R"({"input_ids":[[1],[2,3]]})")->list);
}

TEST(GenerateRequest, OneIdForSeveralPromptsIsNumbered) {
  EXPECT_THAT(generate(R"({"text":["a","b"],"rid":"r"})")->rids, ElementsAre("r_0", "r_1"));
  EXPECT_EQ(generate(R"({"text":["a","b"],"rid":"r"})")->group_rid, "r");
  EXPECT_FALSE(generate(R"({"text":["a","b"],"rid":["r","r"]})").ok());
}

TEST(GenerateRequest, PriorityAndSaltHoldForEveryPrompt) {
  const auto request = generate(
      R"({"text":["a","b"],"priority":-4,"cache_salt":"t","sampling_params":[{},{"n":2}]})");
  ASSERT_TRUE(request.ok());
  for (const GenerationFields& fields : request->generations) {
    EXPECT_EQ(fields.priority, -4);
    EXPECT_EQ(fields.cache_namespace, "1:t");
  }
  EXPECT_EQ(generate(R"({"text":"a","priority":"x"})").error().field, "priority");
  EXPECT_EQ(generate(R"({"text":"a","extra_key":1})").error().field, "extra_key");
}

TEST(GenerateRequest, LogprobFieldsStandForAllPromptsOrForOneEach) {
  const auto shared = generate(
      R"({"text":["a","b"],"return_logprob":true,"logprob_start_len":0,"top_logprobs_num":3,
          "token_ids_logprob":[7,8]})");
  ASSERT_TRUE(shared.ok()) << shared.error().message;
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(shared->logprob_starts[i], 0);
    EXPECT_EQ(shared->generations[i].top_logprobs, 3);
    EXPECT_THAT(shared->generations[i].logprob_tokens, ElementsAre(7, 8));
  }
  const auto own = generate(
      R"({"text":["a","b"],"return_logprob":[false,true],"logprob_start_len":[null,4],
          "top_logprobs_num":[0,2],"token_ids_logprob":[[],[9]]})");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_THAT(own->logprob_starts, ElementsAre(-1, 4));
  EXPECT_EQ(own->generations[0].top_logprobs, -1);
  EXPECT_EQ(own->generations[1].top_logprobs, 2);
  EXPECT_THAT(own->generations[1].logprob_tokens, ElementsAre(9));
}

TEST(GenerateRequest, LogprobFieldsAreHeldToTheirRangesAndLengths) {
  const auto field_of_error = [](const std::string& rest) {
    const auto request = generate(R"({"text":["a","b"],)" + rest + "}");
    return request ? std::string("none") : request.error().field;
  };
  const std::string on = R"("return_logprob":true,)";
  EXPECT_EQ(field_of_error(on + R"("logprob_start_len":-1)"), "none");
  EXPECT_EQ(field_of_error(on + R"("logprob_start_len":-2)"), "logprob_start_len");
  EXPECT_EQ(field_of_error(on + R"("logprob_start_len":[0])"), "logprob_start_len");
  EXPECT_EQ(field_of_error(on + R"("top_logprobs_num":21)"), "top_logprobs_num");
  EXPECT_EQ(field_of_error(on + R"("top_logprobs_num":[1,"2"])"), "top_logprobs_num");
  EXPECT_EQ(field_of_error(on + R"("token_ids_logprob":[[1],2])"), "token_ids_logprob");
  EXPECT_EQ(field_of_error(on + R"("token_ids_logprob":[[1]])"), "token_ids_logprob");
  EXPECT_EQ(field_of_error(R"("return_logprob":[true])"), "return_logprob");
  EXPECT_EQ(field_of_error(R"("logprob_start_len":0)"), "logprob_start_len");
  EXPECT_EQ(field_of_error(R"("token_ids_logprob":[1])"), "token_ids_logprob");
  EXPECT_EQ(field_of_error(R"("token_ids_logprob":[])"), "none");
  std::string ids = "1";
  for (size_t i = 1; i < kLogprobTokensMax; ++i) {
    ids += ",1";
  }
  EXPECT_EQ(field_of_error(on + "\"token_ids_logprob\":[" + ids + "]"), "none");
  EXPECT_EQ(field_of_error(on + "\"token_ids_logprob\":[" + ids + ",1]"), "token_ids_logprob");
}

TEST(GenerateRequest, NoNewTokensMeanThePromptAlone) {
  EXPECT_EQ(
      generate(R"({"text":"a","sampling_params":{"max_new_tokens":0}})")->generations[0].max_tokens,
      0);
  EXPECT_FALSE(generate(R"({"text":"a","sampling_params":{"max_new_tokens":-2}})").ok());
}

TEST(GenerateBody, ListsWhatWasAskedForAndNullWhereThereIsNone) {
  GenerateOutput output{.rid = "r", .lists_top = true, .lists_requested = true};
  output.logprobs.emplace();
  output.prompt_logprobs = {
      {.chosen = {5, 0.0f, "a"}, .scored = false},
      {.chosen = {6, -1.0f, "b"}, .top = {{7, -0.5f, "c"}}, .requested = {{8, -4.0f, "d"}}}};
  const json::object meta = generate_body(output).at("meta_info").as_object();
  EXPECT_EQ(to_string(meta.at("input_token_logprobs")), "[[null,5,null],[-1E0,6,null]]");
  EXPECT_EQ(to_string(meta.at("input_top_logprobs")), "[null,[[-5E-1,7,null]]]");
  EXPECT_EQ(to_string(meta.at("input_token_ids_logprobs")), "[null,[[-4E0,8,null]]]");
  EXPECT_EQ(to_string(meta.at("output_top_logprobs")), "[]");
  output.says_prompt_logprobs = false;
  EXPECT_FALSE(generate_body(output).at("meta_info").as_object().contains("input_top_logprobs"));
}

TEST(GenerateBody, AFinishReasonIsNullUntilTheEnd) {
  GenerateOutput output{.rid = "r", .text = "x"};
  EXPECT_THAT(to_string(generate_body(output)), HasSubstr(R"("finish_reason":null)"));
  output.finish_reason = "stop";
  output.matched_stop = std::string("END");
  EXPECT_THAT(to_string(generate_body(output)),
              HasSubstr(R"("finish_reason":{"type":"stop","matched":"END"})"));
}

TEST(TokenizeRequest, KeepsTheShapeOfTheRequest) {
  EXPECT_FALSE(parse_tokenize_request(*parse_json(R"({"prompt":"a"})"))->list);
  EXPECT_TRUE(parse_tokenize_request(*parse_json(R"({"text":["a"]})"))->list);
  EXPECT_TRUE(parse_detokenize_request(*parse_json(R"({"tokens":[[1]]})"))->list);
  EXPECT_FALSE(parse_detokenize_request(*parse_json(R"({"tokens":[-1]})")).ok());
}

TEST(TokenizeRequest, TakesThePromptUnderOneNameOnly) {
  const auto both = parse_tokenize_request(*parse_json(R"({"prompt":"a","text":"b"})"));
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.error().field, "text");
  EXPECT_TRUE(parse_tokenize_request(*parse_json(R"({"prompt":"a","text":null})")).ok());
}

TEST(AbortRequest, NeedsAnIdOrAll) {
  EXPECT_FALSE(parse_abort_request(*parse_json("{}")).ok());
  EXPECT_TRUE(parse_abort_request(*parse_json(R"({"abort_all":true})"))->abort_all);
}

TEST(ProfileRequest, AnEmptyBodyIsAllDefaults) {
  const auto request = parse_profile_request(*parse_json("{}"));
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->gpu);
  EXPECT_FALSE(request->gpu_alone || request->num_steps || request->start_step);
  EXPECT_TRUE(request->output_dir.empty() && request->prefix.empty());
}

TEST(ProfileRequest, TakesWhatSglangsClientsSend) {
  const auto request = parse_profile_request(*parse_json(
      R"({"activities":["CPU","GPU"],"num_steps":"5","start_step":"3","output_dir":"/tmp/1.5",
          "profile_by_stage":false,"profile_stages":null,"profile_prefix":null,
          "merge_profiles":true,"with_stack":null,"record_shapes":false})"));
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->num_steps, 5);
  EXPECT_EQ(request->start_step, 3);
  EXPECT_TRUE(request->gpu && !request->gpu_alone);
  EXPECT_EQ(request->hints, std::vector<std::string>{"merge_profiles"});
  EXPECT_TRUE(parse_profile_request(*parse_json(R"({"activities":["GPU"]})"))->gpu_alone);
  EXPECT_FALSE(parse_profile_request(*parse_json(R"({"activities":["CPU"]})"))->gpu);
}

TEST(ProfileRequest, RefusesByNameWhatItCannotDo) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"activities":["MEM"]})", "activities"},
      {R"({"activities":"CPU"})", "activities"},
      {R"({"with_stack":true})", "with_stack"},
      {R"({"record_shapes":true})", "record_shapes"},
      {R"({"profile_by_stage":true})", "profile_by_stage"},
      {R"({"profile_stages":["decode"]})", "profile_stages"},
      {R"({"num_steps":0})", "num_steps"},
      {R"({"num_steps":"5x"})", "num_steps"},
      {R"({"num_steps":1000000001})", "num_steps"},
      {R"({"start_step":-1})", "start_step"},
      {R"({"start_step":""})", "start_step"},
      {R"({"profile_prefix":"../x"})", "profile_prefix"},
      {R"({"profile_prefix":".x"})", "profile_prefix"},
      {R"({"profile_id":"a/b"})", "profile_id"},
      {R"({"output_dir":"a\u0000b"})", "output_dir"},
      {R"({"steps":1})", "steps"}};
  for (const auto& [body, field] : wrong) {
    const auto request = parse_profile_request(*parse_json(body));
    ASSERT_FALSE(request.ok()) << body;
    EXPECT_EQ(request.error().field, field);
  }
  EXPECT_TRUE(parse_profile_request(*parse_json(R"({"num_steps":1000000000})")).ok());
  const std::string longest(64, 'a');
  EXPECT_TRUE(parse_profile_request(*parse_json("{\"profile_prefix\":\"" + longest + "\"}")).ok());
  EXPECT_FALSE(
      parse_profile_request(*parse_json("{\"profile_prefix\":\"" + longest + "a\"}")).ok());
}

TEST(Parsers, MutatedRequestsAreParsedOrRefusedAndNothingElse) {
  const std::string good =
      R"({"text":["a","b"],"sampling_params":[{"n":1},{"stop":"x"}],"rid":["1","2"],"tokens":[1]})";
  for_each_mutation(good, [&](const json::value& value, uint64_t seed) {
    const auto request = parse_generate_request(value, {});
    EXPECT_TRUE(request.ok() || !request.error().message.empty()) << "seed " << seed;
    parse_tokenize_request(value).ok();
    parse_detokenize_request(value).ok();
    parse_abort_request(value).ok();
    parse_profile_request(value).ok();
  });
}

}  // namespace
}  // namespace pome::protocol::native
