#include "text/stream/text_stream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <random>

#include "text/tokenizer/golden.h"

namespace pome::text {
namespace {

bool is_utf8(std::string_view text) {
  return parse_json(to_string(json::value(text))).ok();
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<Token>& tokens,
                     const StreamOptions& options = {}) {
  TextStream stream(tokenizer, options);
  std::string text;
  for (const Token token : tokens) {
    const TextDelta delta = stream.push(std::span(&token, 1));
    EXPECT_TRUE(is_utf8(delta.text));
    text += delta.text;
  }
  return text + stream.finish().text;
}

class Streaming : public testing::TestWithParam<std::string> {
 protected:
  Tokenizer tokenizer_ = golden::from_gguf(golden::tokenizer_golden(GetParam()));
};

TEST_P(Streaming, PiecesOfRandomTokensConcatenateToTheWholeDecode) {
  std::mt19937 random(3);
  // Byte tokens and control tokens have small ids, so half of the draws come from there.
  for (int round = 0; round < 400; ++round) {
    std::vector<Token> tokens(random() % 60);
    for (Token& token : tokens) {
      const auto range = static_cast<uint32_t>(random() % 2 ? tokenizer_.vocab_tokens() : 300);
      token = static_cast<Token>(random() % range);
    }
    for (const bool skip : {true, false}) {
      for (const bool continues : {true, false}) {
        EXPECT_EQ(streamed(tokenizer_, tokens, {.skip_special = skip, .continues_text = continues}),
                  tokenizer_.decode(tokens, {.skip_special = skip, .continues_text = continues}));
      }
    }
  }
}

TEST_P(Streaming, NoCharacterIsCutAndNoMarkAppearsInGoodText) {
  for (const std::string text :
       {"ď 👩‍👩‍👧 你好", " a", "a ", "\n\n", "e\u0301 𐍈", "ﬁ ជំរាបសួរ"}) {
    const auto tokens = *tokenizer_.encode(text);
    const std::string shown = streamed(tokenizer_, tokens, {.continues_text = false});
    EXPECT_EQ(shown, tokenizer_.decode(tokens));
    EXPECT_EQ(shown.find("\uFFFD"), std::string::npos) << shown;
  }
}

TEST_P(Streaming, TheDecodeOfAnEncodedTextIsTheText) {
  for (const std::string text :
       {"  two leading, two trailing  ", "tabs\tand\nlines\r\n", "日本語 text"}) {
    EXPECT_EQ(streamed(tokenizer_, *tokenizer_.encode(text)), text);
  }
}

// Held against a search of the whole text: the stop that ends first, the longest of those.
TEST_P(Streaming, StopsCutTheTextWhereTheFirstMatchBegins) {
  std::mt19937 random(5);
  const std::vector<std::string> alphabet = {"a", "b", "ab", " ", "aa", "你", "ba", "\n"};
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t i = 0; i < 1 + random() % 30; ++i) {
      text += alphabet[random() % alphabet.size()];
    }
    std::vector<std::string> stops;
    for (size_t i = 0; i < 1 + random() % 3; ++i) {
      std::string stop;
      for (size_t k = 0; k < 1 + random() % 3; ++k) {
        stop += alphabet[random() % alphabet.size()];
      }
      stops.push_back(stop);
    }
    const auto tokens = *tokenizer_.encode(text);
    const std::string whole = tokenizer_.decode(tokens);
    std::string expected = whole;
    std::string matched;
    for (size_t end = 1; end <= whole.size() && matched.empty(); ++end) {
      for (const std::string& stop : stops) {
        const bool ends_here =
            end >= stop.size() && whole.compare(end - stop.size(), stop.size(), stop) == 0;
        if (ends_here && stop.size() > matched.size()) {
          matched = stop;
          expected = whole.substr(0, end - stop.size());
        }
      }
    }
    TextStream stream(tokenizer_, {.stops = stops});
    std::string shown;
    std::optional<std::string> found;
    for (const Token token : tokens) {
      const TextDelta delta = stream.push(std::span(&token, 1));
      shown += delta.text;
      if (delta.matched_stop) {
        found = delta.matched_stop;
      }
    }
    shown += stream.finish().text;
    EXPECT_EQ(shown, expected) << whole;
    EXPECT_EQ(found.value_or(""), matched) << whole;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Streaming, testing::ValuesIn(golden::names()),
                         [](const auto& tested) { return tested.param; });

class Stops : public testing::Test {
 protected:
  TextDelta push(TextStream& stream, std::string_view text) {
    return stream.push(*tokenizer_.encode(text, {.parse_special = true}));
  }
  Tokenizer tokenizer_ = golden::from_gguf(golden::tokenizer_golden("qwen2"));
};

TEST_F(Stops, AStopSplitOverTokensIsSeenAndNoneOfItWasSent) {
  TextStream stream(tokenizer_, {.stops = {"END"}});
  EXPECT_EQ(push(stream, "the E").text, "the ");
  const TextDelta delta = push(stream, "ND and more");
  EXPECT_EQ(delta.text, "");
  EXPECT_TRUE(delta.finished);
  EXPECT_EQ(delta.matched_stop, "END");
  EXPECT_EQ(push(stream, "surplus").text, "");
  EXPECT_EQ(stream.finish().text, "");
}

TEST_F(Stops, HeldTextComesWhenItCannotBecomeAStop) {
  TextStream stream(tokenizer_, {.stops = {"\n\nUser:"}});
  EXPECT_EQ(push(stream, "a\n\n").text, "a");
  EXPECT_EQ(push(stream, "b").text, "\n\nb");
  EXPECT_EQ(push(stream, "\n").text, "");
  EXPECT_EQ(stream.finish().text, "\n");
}

TEST_F(Stops, NoStopTrimKeepsTheStopString) {
  TextStream stream(tokenizer_, {.stops = {"END"}, .no_stop_trim = true});
  EXPECT_EQ(push(stream, "the END.").text, "the END");
}

TEST_F(Stops, ASkippedSpecialTokenCanBeAStop) {
  TextStream stream(tokenizer_, {.stops = {"<|im_end|>", "zzz"}});
  const TextDelta delta = push(stream, "hi zz<|im_end|>more");
  EXPECT_EQ(delta.text, "hi zz");
  EXPECT_EQ(delta.matched_stop, "<|im_end|>");
}

TEST_F(Stops, TokensAreCountedUpToTheOneThatCompletesTheStop) {
  const auto before = *tokenizer_.encode("one two");
  const auto stop = *tokenizer_.encode("!");
  auto all = before;
  all.insert(all.end(), stop.begin(), stop.end());
  all.insert(all.end(), before.begin(), before.end());
  TextStream stream(tokenizer_, {.stops = {"!"}});
  stream.push(all);
  EXPECT_EQ(stream.completion_tokens(), static_cast<int32_t>(before.size() + stop.size()));
}

TEST_F(Stops, HalfACharacterAtTheEndIsOneMark) {
  auto tokens = *tokenizer_.encode("𒀀");
  ASSERT_GT(tokens.size(), 1U);
  tokens.pop_back();
  TextStream stream(tokenizer_, {});
  EXPECT_EQ(stream.push(tokens).text, "");
  EXPECT_EQ(stream.finish().text, "\uFFFD");
}

// Twice the output costs about twice the time: a generous factor, because the machine may be busy.
TEST_F(Stops, WorkIsLinearInTheOutput) {
  const auto tokens = *tokenizer_.encode("aaab");
  const auto seconds = [&](int repeats) {
    const auto start = std::chrono::steady_clock::now();
    TextStream stream(tokenizer_, {.stops = {std::string(200, 'a') + "c"}});
    for (int i = 0; i < repeats; ++i) {
      stream.push(tokens);
    }
    stream.finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(1000);
  EXPECT_LT(seconds(40000), 8 * 10 * seconds(4000) + 0.05);
}

}  // namespace
}  // namespace pome::text
