#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "protocol/errors.h"
#include "protocol/field_table.h"
#include "protocol/generation_fields.h"
#include "protocol/object_reader.h"

namespace pome::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

json::object object(std::string_view text) {
  return parse_json(text)->as_object();
}

constexpr Field kFields[] = {
    {"temperature", FieldUse::honoured, "0 to 100"},
    {"user", FieldUse::hint, ""},
    {"tools", FieldUse::refused, "not yet", is_empty},
};
constexpr FieldTable kTable{"POST /x", kFields};

TEST(FieldTable, HintsComeBackByName) {
  const auto hints = check_fields(object(R"({"user":"me","temperature":1})"), kTable);
  ASSERT_TRUE(hints.ok());
  EXPECT_THAT(*hints, ElementsAre("user"));
}

TEST(FieldTable, ARefusedFieldIsAnErrorUnlessItAsksForNothing) {
  EXPECT_TRUE(check_fields(object(R"({"tools":[]})"), kTable).ok());
  EXPECT_TRUE(check_fields(object(R"({"tools":null})"), kTable).ok());
  const auto refused = check_fields(object(R"({"tools":[1]})"), kTable, "in.");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "in.tools");
  EXPECT_THAT(refused.error().message, HasSubstr("not yet"));
}

TEST(FieldTable, AnUnknownFieldIsAnErrorThatKnowsTheNearestName) {
  const auto typo = check_fields(object(R"({"temprature":1})"), kTable);
  ASSERT_FALSE(typo.ok());
  EXPECT_THAT(typo.error().message, HasSubstr("did you mean 'temperature'?"));
  EXPECT_THAT(check_fields(object(R"({"xyz":1})"), kTable).error().message,
              ::testing::Not(HasSubstr("mean")));
}

TEST(FieldTable, AnUnknownNameOfAnyLengthAndBytesIsQuotedShortAndInAscii) {
  json::object long_key;
  long_key[std::string(100'000, 'k')] = 1;
  EXPECT_LT(check_fields(long_key, kTable).error().message.size(), 200u);
  json::object odd_key;
  odd_key["a\nb\xc3\xa9"] = 1;
  EXPECT_THAT(check_fields(odd_key, kTable).error().message, HasSubstr("a?b??"));
}

TEST(ObjectReader, AbsentAndNullReadAsNothing) {
  const json::object source = object(R"({"a":null})");
  ObjectReader reader(source);
  EXPECT_FALSE(reader.integer("a", {.min = 0, .max = 1}));
  EXPECT_FALSE(reader.string("b", 10));
  EXPECT_TRUE(reader.status().ok());
}

TEST(ObjectReader, ARangeHoldsAtItsEndsAndNotOnePast) {
  const json::object source = object(R"({"low":1,"high":16,"under":0,"over":17,"whole":2.0})");
  const IntRange range{.min = 1, .max = 16};
  for (const char* name : {"low", "high", "whole"}) {
    ObjectReader reader(source);
    EXPECT_TRUE(reader.integer(name, range)) << name;
    EXPECT_TRUE(reader.status().ok()) << name;
  }
  for (const char* name : {"under", "over"}) {
    ObjectReader reader(source, "p.");
    EXPECT_FALSE(reader.integer(name, range)) << name;
    EXPECT_EQ(reader.status().error().field, std::string("p.") + name);
  }
}

TEST(ObjectReader, OnlyTheFirstErrorIsKept) {
  const json::object source = object(R"({"a":"x","b":"y"})");
  ObjectReader reader(source);
  reader.integer("a", {.min = 0, .max = 1});
  reader.boolean("b");
  EXPECT_EQ(reader.status().error().field, "a");
}

TEST(ObjectReader, AnExcludedMinimumIsPastTheRange) {
  const json::object source = object(R"({"zero":0,"more":0.1})");
  const NumberRange range{.min = 0.0, .max = 2.0, .min_excluded = true};
  ObjectReader reader(source);
  EXPECT_TRUE(reader.number("more", range));
  EXPECT_TRUE(reader.status().ok());
  EXPECT_FALSE(reader.number("zero", range));
  EXPECT_FALSE(reader.status().ok());
}

GenerationFields fields_of(std::string_view text) {
  const json::object source = object(text);
  ObjectReader reader(source);
  GenerationFields fields;
  read_generation_fields(reader, {}, fields);
  EXPECT_TRUE(reader.status().ok()) << text;
  return fields;
}

TEST(GenerationFields, SeedZeroIsASeedAndMinusOneIsNone) {
  EXPECT_EQ(fields_of(R"({"seed":0})").sampling.seed, 0u);
  EXPECT_FALSE(fields_of(R"({"seed":-1})").sampling.seed);
  EXPECT_EQ(fields_of(R"({"seed":18446744073709551614})").sampling.seed, ~uint64_t{0} - 1);
}

TEST(GenerationFields, TopKZeroIsTheWholeVocabularyAndTopPZeroKeepsTheBestToken) {
  EXPECT_EQ(fields_of(R"({"top_k":0})").sampling.top_k, -1);
  EXPECT_GT(fields_of(R"({"top_p":0})").sampling.top_p, 0.0f);
}

TEST(GenerationFields, DefaultsStayWhereTheRequestSaysNothing) {
  const json::object source = object(R"({"top_k":5})");
  ObjectReader reader(source);
  GenerationFields fields;
  fields.sampling.temperature = 0.25f;
  read_generation_fields(reader, {}, fields);
  EXPECT_EQ(fields.sampling.temperature, 0.25f);
  EXPECT_EQ(fields.sampling.top_k, 5);
}

TEST(GenerationFields, StopTakesAStringOrUpToSixteen) {
  EXPECT_THAT(fields_of(R"({"stop":"a"})").stop, ElementsAre("a"));
  EXPECT_EQ(
      fields_of(R"({"stop":["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g"]})")
          .stop.size(),
      kStopsMax);
}

TEST(GenerationFields, ATokenLimitOfMinusOneIsNoneAndZeroIsRefused) {
  const json::object source = object(R"({"none":-1,"zero":0,"less":-2,"one":1})");
  ObjectReader reader(source);
  EXPECT_FALSE(read_token_limit(reader, "none"));
  EXPECT_EQ(read_token_limit(reader, "one"), 1);
  EXPECT_TRUE(reader.status().ok());
  EXPECT_FALSE(read_token_limit(reader, "zero"));
  EXPECT_FALSE(reader.status().ok());
  ObjectReader again(source);
  EXPECT_FALSE(read_token_limit(again, "less"));
  EXPECT_FALSE(again.status().ok());
}

TEST(Errors, HaveOpenAisShapeAndTheRightStatus) {
  const json::object body = error_body(invalid("bad", "n"));
  EXPECT_EQ(
      to_string(body),
      R"({"error":{"message":"bad","type":"invalid_request_error","param":"n","code":null}})");
  EXPECT_EQ(http_status(ErrorCode::queue_full), 429);
  EXPECT_EQ(http_status(ErrorCode::forbidden), 403);
  EXPECT_EQ(http_status(ErrorCode::unavailable), 503);
}

TEST(Sse, AnEventIsOneDataLineAndAnEmptyOne) {
  EXPECT_EQ(sse_event(json::object{{"a", "x\ny"}}), "data: {\"a\":\"x\\ny\"}\n\n");
}

}  // namespace
}  // namespace pome::protocol
