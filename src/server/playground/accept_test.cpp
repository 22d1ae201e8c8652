#include "server/playground/accept.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace pome::server {
namespace {

TEST(Accept, BrowsersWantThePage) {
  for (const char* accept :
       {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", "text/html",
        "TEXT/HTML ; charset=utf-8", "application/json;q=0.5, text/html;q=0.9"}) {
    EXPECT_TRUE(wants_page(accept)) << accept;
  }
}

TEST(Accept, ClientsOfTheApiDoNot) {
  for (const char* accept :
       {"", "*/*", "application/json", "text/plain", "application/json, text/plain, */*",
        "application/json, text/html;q=0.5", "text/html;q=0", "text/htmlx", "text/*", ",;,",
        ";q=1"}) {
    EXPECT_FALSE(wants_page(accept)) << accept;
  }
}

TEST(Accept, QualitiesAreReadAndNonsenseIsNone) {
  EXPECT_DOUBLE_EQ(named_quality("a/b;q=0.25", "a/b"), 0.25);
  EXPECT_DOUBLE_EQ(named_quality("a/b; level=1; q=0.5", "a/b"), 0.5);
  EXPECT_DOUBLE_EQ(named_quality("a/b;q=0.1,a/b;q=0.7", "a/b"), 0.7);
  EXPECT_DOUBLE_EQ(named_quality("a/b;q=1.000", "a/b"), 1.0);
  EXPECT_DOUBLE_EQ(named_quality("a/b;q=1.9", "a/b"), 1.0);
  for (const char* accept :
       {"a/b;q=x", "a/b;q=-1", "a/b;q=0.1234", "a/b;q=7", "a/b;q=0.x", "a/c"}) {
    EXPECT_DOUBLE_EQ(named_quality(accept, "a/b"), 0.0) << accept;
  }
}

TEST(Accept, AnyBytesHaveAQualityFromNoneToOne) {
  constexpr std::string_view kLetters = "a/b;q=0.19, \t\xff*";
  std::minstd_rand draw(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string accept;
    for (size_t length = draw() % 24; accept.size() < length;) {
      accept += kLetters[draw() % kLetters.size()];
    }
    const double quality = named_quality(accept, "a/b");
    EXPECT_TRUE(quality >= 0.0 && quality <= 1.0) << accept;
  }
}

}  // namespace
}  // namespace pome::server
