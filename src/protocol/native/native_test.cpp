#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "protocol/native/fields.h"
#include "protocol/native/generate.h"
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
  EXPECT_FALSE(generate(R"({"text":["a","b"],"rid":["r","r"]})").ok());
}

TEST(GenerateRequest, LogprobsOfThePromptAreRefused) {
  EXPECT_TRUE(generate(R"({"text":"a","return_logprob":true,"logprob_start_len":-1})").ok());
  EXPECT_EQ(generate(R"({"text":"a","return_logprob":true,"logprob_start_len":0})").error().field,
            "logprob_start_len");
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

TEST(Parsers, MutatedRequestsAreParsedOrRefusedAndNothingElse) {
  const uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string good =
      R"({"text":["a","b"],"sampling_params":[{"n":1},{"stop":"x"}],"rid":["1","2"],"tokens":[1]})";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (uint64_t edit = random() % 3 + 1; edit > 0; --edit) {
      constexpr std::string_view kBytes = "{}[]\",:0123456789-.eEntfax\\";
      text[random() % text.size()] = kBytes[random() % kBytes.size()];
    }
    if (const auto value = parse_json(text)) {
      const auto request = parse_generate_request(*value, {});
      EXPECT_TRUE(request.ok() || !request.error().message.empty()) << "seed " << seed;
      parse_tokenize_request(*value).ok();
      parse_detokenize_request(*value).ok();
      parse_abort_request(*value).ok();
    }
  }
}

}  // namespace
}  // namespace pome::protocol::native
