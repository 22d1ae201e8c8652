#include <gtest/gtest.h>

#include <thread>

#include "base/bounded_queue.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"

namespace pome {
namespace {

TEST(Result, HoldsAValueOrAnError) {
  Result<int> good = 3;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 3);
  Result<int> bad = invalid("no", "n");
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().field, "n");
}

TEST(BoundedQueue, RefusesTheItemPastItsBound) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  EXPECT_EQ(queue.try_pop(), 1);
  EXPECT_TRUE(queue.try_push(3));
}

TEST(BoundedQueue, DrainsAfterCloseAndRefusesPushes) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  queue.close();
  EXPECT_FALSE(queue.try_push(2));
  EXPECT_EQ(queue.pop(std::chrono::milliseconds(1)), 1);
  EXPECT_EQ(queue.pop(std::chrono::hours(1)), std::nullopt);
}

TEST(BoundedQueue, WakesAWaitingConsumer) {
  BoundedQueue<int> queue(1);
  std::thread producer([&] { queue.push_unbounded(7); });
  EXPECT_EQ(queue.pop(std::chrono::seconds(10)), 7);
  producer.join();
}

TEST(Json, RefusesTextAfterTheDocumentAndNamesTheByte) {
  auto parsed = parse_json("{\"a\":1} x");
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("byte"), std::string::npos);
}

TEST(Json, RefusesInvalidUtf8NanAndDeepNesting) {
  EXPECT_FALSE(parse_json("\"\xff\""));
  EXPECT_FALSE(parse_json("NaN"));
  EXPECT_FALSE(parse_json(std::string(65, '[') + std::string(65, ']')));
  EXPECT_TRUE(parse_json(std::string(64, '[') + std::string(64, ']')));
  EXPECT_FALSE(parse_json(""));
  EXPECT_FALSE(parse_json("{\"a\":"));
}

TEST(Json, OfAKeyThatStandsTwiceTheLastCounts) {
  EXPECT_EQ(to_string(*parse_json(R"({"a":1,"b":{"c":1,"c":[2]},"a":null})")),
            R"({"a":null,"b":{"c":[2]}})");
}

TEST(Json, RefusesNumbersPastTheRangeOfADouble) {
  EXPECT_TRUE(parse_json("[1e308, -1e308]"));
  EXPECT_FALSE(parse_json("1e309"));
  EXPECT_FALSE(parse_json(R"({"a":[{"b":-1e999}]})"));
}

TEST(Json, AnErrorNamesTheFieldThatItStandsIn) {
  const auto field = [](std::string_view text) { return parse_json(text).error().field; };
  EXPECT_EQ(field(R"({"a":1,"temperature":NaN})"), "temperature");
  EXPECT_EQ(field(R"({"a":[1,{"b":2}],"m":[{"role":"x"},{"role":"y","content":"\xff"}]})"),
            "m[1].content");
  EXPECT_EQ(field(R"({"a\"{[":{"b":[0,1,1e999]}})"), R"(a"{[.b[2])");
  EXPECT_EQ(field(R"({"a\"{[":{"b":[0,1,Infinity]}})"), R"(a\"{[.b[2])");
  EXPECT_EQ(field(R"({"a":1,"b":tru})"), "b");
  EXPECT_EQ(field(R"({"a":1,"b":)"), "b");
  EXPECT_EQ(field(R"({"a":1,)"), "");
  EXPECT_EQ(field(R"({"a":1,b:2})"), "");
  EXPECT_EQ(field(R"({"a":1} x)"), "");
  EXPECT_EQ(field("NaN"), "");
}

TEST(Json, AnErrorSaysWhatIsNoJson) {
  const auto message = [](std::string_view text) { return parse_json(text).error().message; };
  EXPECT_EQ(message(R"({"top_p":NaN})"),
            "invalid JSON at byte 9, in 'top_p': NaN is no JSON number");
  EXPECT_EQ(message(R"({"top_p":-Infinity})").find("invalid JSON at byte "), 0u);
  EXPECT_NE(message(R"({"top_p":-Infinity})").find("'top_p'"), std::string::npos);
  EXPECT_NE(message("{\"p\":\"\xff\"}").find("UTF-8"), std::string::npos);
  EXPECT_LT(message("{\"" + std::string(50'000, 'k') + "\":NaN}").size(), 200u);
}

TEST(Json, ReadsIntegersExactly) {
  auto parsed = parse_json(R"({"a":2.0,"b":2.5,"c":18446744073709551615,"d":1e30})");
  ASSERT_TRUE(parsed);
  const json::object& object = parsed->get_object();
  EXPECT_EQ(find_int(object, "a"), 2);
  EXPECT_EQ(find_int(object, "b"), std::nullopt);
  EXPECT_EQ(find_int(object, "c"), std::nullopt);
  EXPECT_EQ(find_int(object, "d"), std::nullopt);
}

TEST(Utf8, BytesThatAreNoTextBecomeOneReplacementPerIllFormedRun) {
  EXPECT_EQ(valid_utf8("a\xf0\x9f\x91"), "a\xef\xbf\xbd");
  EXPECT_EQ(valid_utf8("\xff\xfe"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  EXPECT_EQ(valid_utf8("é👍"), "é👍");
  EXPECT_EQ(first_invalid_byte("é👍"), std::nullopt);
  EXPECT_EQ(first_invalid_byte("é\xf0\x9f\x91"), 2u);
  EXPECT_EQ(first_invalid_byte(""), std::nullopt);
}

TEST(Utf8, CharactersAreCountedWhereTheyBegin) {
  EXPECT_EQ(characters_in(""), 0);
  EXPECT_EQ(characters_in("aé👍"), 3);
  EXPECT_EQ(characters_in("\xa9\xc3"), 1);
}

TEST(Log, KnowsTheLevelNames) {
  EXPECT_TRUE(log::parse_level("warning"));
  EXPECT_FALSE(log::parse_level("loud"));
}

}  // namespace
}  // namespace pome
