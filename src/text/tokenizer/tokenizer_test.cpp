#include "text/tokenizer/tokenizer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/json.h"
#include "text/tokenizer/golden.h"

namespace pome::text {
namespace {

using testing::HasSubstr;

class SmallVocabulary : public testing::TestWithParam<std::string> {};

TEST_P(SmallVocabulary, FromTokenizerJsonGivesTheReferencesIdsAndTexts) {
  const json::object golden = golden::tokenizer_golden(GetParam());
  golden::expect_equal(golden::from_json(golden), golden);
}

TEST_P(SmallVocabulary, FromGgufGivesTheReferencesIdsAndTexts) {
  const json::object golden = golden::tokenizer_golden(GetParam());
  golden::expect_equal(golden::from_gguf(golden), golden);
}

TEST_P(SmallVocabulary, BosStandsOnceHoweverTheTextBegins) {
  const json::object golden = golden::tokenizer_golden(GetParam());
  for (const Tokenizer& tokenizer : {golden::from_json(golden), golden::from_gguf(golden)}) {
    if (!tokenizer.adds_bos()) {
      EXPECT_EQ(*tokenizer.encode("hi", {.add_special = true}), *tokenizer.encode("hi"));
      continue;
    }
    const auto once = *tokenizer.encode("hi", {.add_special = true});
    EXPECT_EQ(once.front(), tokenizer.bos());
    EXPECT_NE(once.at(1), tokenizer.bos());
    const auto written =
        *tokenizer.encode(*tokenizer.piece(*tokenizer.bos()) + "hi", {.add_special = true});
    EXPECT_EQ(written.front(), tokenizer.bos());
    EXPECT_NE(written.at(1), tokenizer.bos());
  }
}

TEST_P(SmallVocabulary, EachIdHasAPieceThatLeadsBackToIt) {
  const json::object golden = golden::tokenizer_golden(GetParam());
  const Tokenizer tokenizer = golden::from_gguf(golden);
  ASSERT_EQ(tokenizer.vocab_tokens(), golden::from_json(golden).vocab_tokens());
  for (Token token = 0; token < tokenizer.vocab_tokens(); ++token) {
    const auto piece = tokenizer.piece(token);
    ASSERT_TRUE(piece) << token;
    EXPECT_EQ(tokenizer.token_id(*piece), token) << *piece;
  }
  EXPECT_FALSE(tokenizer.piece(tokenizer.vocab_tokens()));
  EXPECT_FALSE(tokenizer.piece(-1));
  EXPECT_EQ(tokenizer.piece_bytes(tokenizer.vocab_tokens()).kind, PieceBytes::Kind::none);
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{-1, tokenizer.vocab_tokens(), 1 << 30}), "");
}

TEST_P(SmallVocabulary, ManyThreadsShareOneTokenizer) {
  const json::object golden = golden::tokenizer_golden(GetParam());
  const Tokenizer tokenizer = golden::from_gguf(golden);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (const json::value& c : golden.at("cases").as_array()) {
        EXPECT_EQ(*tokenizer.encode(golden::text(c.at("text"))), golden::ids(c.at("ids")));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SmallVocabulary, testing::ValuesIn(golden::names()),
                         [](const auto& tested) { return tested.param; });

TEST(Tokenizer, LiteralSpansKeepControlTokensOutAndLeaveTheRestAlone) {
  const Tokenizer tokenizer = golden::from_gguf(golden::tokenizer_golden("qwen2"));
  const std::string end = "<|im_end|>";
  const std::string text = "a" + end + "b" + end + "c";
  const TextSpan second = {1 + end.size() + 1, 1 + 2 * end.size() + 1};
  const auto mixed = *tokenizer.encode(text, {.literal = std::span(&second, 1)});
  std::vector<Token> expected = *tokenizer.encode("a" + end);
  const auto rest = *tokenizer.encode("b" + end + "c", {.parse_special = false});
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(mixed, expected);
  EXPECT_EQ(std::count(mixed.begin(), mixed.end(), *tokenizer.token_id(end)), 1);
  EXPECT_EQ(tokenizer.decode(mixed, {.skip_special = false}), text);
}

TEST(Tokenizer, ASpanPastTheTextIsRefused) {
  const Tokenizer tokenizer = golden::from_gguf(golden::tokenizer_golden("qwen2"));
  const TextSpan past = {0, 3};
  EXPECT_TRUE(tokenizer.encode("abc", {.literal = std::span(&past, 1)}).ok());
  const auto refused = tokenizer.encode("ab", {.literal = std::span(&past, 1)});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("past the text"));
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefusedWithTheByte) {
  const Tokenizer tokenizer = golden::from_gguf(golden::tokenizer_golden("qwen2"));
  const auto refused = tokenizer.encode("abc\xFFz");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("byte 3"));
}

TEST(GgufVocabulary, NamedChatTemplatesStandBesideTheDefault) {
  json::object metadata = golden::tokenizer_golden("qwen2").at("gguf").as_object();
  metadata["tokenizer.chat_template.tool_use"] = "tools";
  metadata["tokenizer.chat_templates"] = json::array{"tool_use"};
  metadata["tokenizer.chat_template"] = "plain";
  const auto vocabulary = *read_gguf_vocabulary(metadata);
  ASSERT_EQ(vocabulary.chat_templates.size(), 2u);
  EXPECT_EQ(vocabulary.chat_templates[0].name, "default");
  EXPECT_EQ(vocabulary.chat_templates[0].text, "plain");
  EXPECT_EQ(vocabulary.chat_templates[1].name, "tool_use");
  EXPECT_EQ(vocabulary.chat_templates[1].text, "tools");
}

TEST(Tokenizer, AnUnknownPreTokenizerIsRefusedWithTheKnownOnes) {
  auto vocabulary = *read_gguf_vocabulary(golden::tokenizer_golden("qwen2").at("gguf").as_object());
  vocabulary.pre = "pome-9";
  const auto refused = Tokenizer::from_gguf(vocabulary);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("pome-9"));
  EXPECT_THAT(refused.error().message, HasSubstr("qwen2"));
  vocabulary.model = "bert";
  EXPECT_THAT(Tokenizer::from_gguf(vocabulary).error().message, HasSubstr("SentencePiece"));
}

TEST(Tokenizer, GgufArraysThatDoNotFitEachOtherAreRefused) {
  const auto good =
      *read_gguf_vocabulary(golden::tokenizer_golden("gemma3").at("gguf").as_object());
  const auto message = [](GgufVocabulary vocabulary) {
    const auto made = Tokenizer::from_gguf(vocabulary);
    return made ? std::string("accepted") : made.error().message;
  };
  GgufVocabulary bad = good;
  bad.scores.pop_back();
  EXPECT_THAT(message(bad), HasSubstr("scores for"));
  bad = good;
  bad.token_types.push_back(1);
  EXPECT_THAT(message(bad), HasSubstr("token types for"));
  bad = good;
  bad.bos = static_cast<Token>(bad.tokens.size());
  EXPECT_THAT(message(bad), HasSubstr("outside the vocabulary"));
  bad = good;
  bad.scores.clear();
  EXPECT_THAT(message(bad), HasSubstr("needs tokenizer.ggml.scores"));
  bad = good;
  bad.merges = {"nothing known"};
  EXPECT_THAT(message(bad), HasSubstr("not in the vocabulary"));
  bad = good;
  bad.bos.reset();
  EXPECT_THAT(message(bad), HasSubstr("no bos_token_id"));
}

TEST(Tokenizer, TwoIdsWithOneTextBothDecode) {
  auto vocabulary = *read_gguf_vocabulary(golden::tokenizer_golden("qwen2").at("gguf").as_object());
  const auto twin = static_cast<Token>(vocabulary.tokens.size());
  vocabulary.tokens.push_back(vocabulary.tokens[300]);
  vocabulary.token_types.push_back(1);
  const auto made = Tokenizer::from_gguf(vocabulary);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->decode(std::vector<Token>{twin}), made->decode(std::vector<Token>{300}));
  EXPECT_EQ(made->token_id(vocabulary.tokens[300]), 300);
}

TEST(Tokenizer, ARunOfSpacesThatTheFileDefinesIsOneToken) {
  auto v = *read_gguf_vocabulary(golden::tokenizer_golden("gemma3").at("gguf").as_object());
  const auto found = std::find(v.tokens.begin(), v.tokens.end(), "\u2581\u2581");
  ASSERT_NE(found, v.tokens.end());
  const auto two = static_cast<Token>(found - v.tokens.begin());
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const bool longer = v.tokens[id].rfind("\u2581\u2581\u2581", 0) == 0;
    if (longer) {
      v.token_types[id] = 5;  // so that the run of two is the longest
    }
  }
  *found = "  ";
  v.token_types[two] = 4;
  const Tokenizer tokenizer = *Tokenizer::from_gguf(v);
  for (const std::string text : {"a  b", "a \u2581b", "a    b"}) {
    const auto ids = *tokenizer.encode(text);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), two), text.size() > 5 && text[2] == ' ' ? 2 : 1)
        << text;
  }
  EXPECT_EQ(tokenizer.decode(*tokenizer.encode("a  b    c")), "a  b    c");
}

TEST(Tokenizer, TruncationAndPaddingOfTokenizerJsonAreDropped) {
  json::object golden = golden::tokenizer_golden("qwen2");
  json::object& source = golden.at("tokenizer_json").as_object();
  source["truncation"] = {
      {"max_length", 4}, {"strategy", "LongestFirst"}, {"stride", 0}, {"direction", "Right"}};
  source["padding"] = {{"strategy", {{"Fixed", 64}}},
                       {"direction", "Right"},
                       {"pad_to_multiple_of", nullptr},
                       {"pad_id", 0},
                       {"pad_type_id", 0},
                       {"pad_token", "x"}};
  golden::expect_equal(golden::from_json(golden), golden);
}

TEST(Tokenizer, ADecoderThatCannotBeStreamedIsRefusedByName) {
  json::object golden = golden::tokenizer_golden("qwen2");
  golden.at("tokenizer_json").as_object()["decoder"] = {
      {"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  const auto refused = Tokenizer::from_hf(to_string(golden.at("tokenizer_json")), nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("WordPiece"));
}

// Whatever stands in the file, the answer is a tokenizer or an Error.
TEST(Tokenizer, DamagedTokenizerJsonGivesAnError) {
  const json::object golden = golden::tokenizer_golden("llama_bpe");
  const std::string good = to_string(golden.at("tokenizer_json"));
  std::mt19937 random(7);
  for (const size_t bytes : {0, 1, 10, 1000, 30000}) {
    EXPECT_FALSE(Tokenizer::from_hf(good.substr(0, bytes), nullptr).ok()) << bytes;
  }
  for (int round = 0; round < 60; ++round) {
    std::string bad = good;
    for (int i = 0; i < 20; ++i) {
      bad[random() % bad.size()] = static_cast<char>(random() % 256);
    }
    const auto made = Tokenizer::from_hf(bad, nullptr);
    if (made) {
      (void)made->encode("some text <|eot_id|>", {.add_special = true});
    } else {
      EXPECT_FALSE(made.error().message.empty());
    }
  }
  for (const std::string_view hostile :
       {"{}", "[]", "null", "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4294967295},\"merges\":[]},\"added_tokens\":"
        "[]}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"b\"]]}}"}) {
    EXPECT_FALSE(Tokenizer::from_hf(hostile, nullptr).ok()) << hostile;
  }
  EXPECT_FALSE(Tokenizer::from_hf(std::string(200000, '['), nullptr).ok());
}

TEST(Tokenizer, RandomGgufVocabulariesGiveATokenizerOrAnError) {
  std::mt19937 random(11);
  const std::vector<std::string> alphabet = {"a", "b", "ab",     "Ġ",   "▁",  "▁a",
                                             " ", "",  "<0x41>", "<s>", "\n", "ba"};
  for (int round = 0; round < 300; ++round) {
    GgufVocabulary v;
    v.model = round % 2 ? "llama" : "gpt2";
    v.pre = round % 3 ? "gpt-2" : "default";
    const size_t count = random() % 20;
    for (size_t i = 0; i < count; ++i) {
      v.tokens.push_back(alphabet[random() % alphabet.size()]);
      v.scores.push_back(static_cast<float>(random() % 5));
      v.token_types.push_back(static_cast<int32_t>(random() % 9) - 1);
    }
    for (size_t i = 0; i < random() % 5; ++i) {
      v.merges.push_back(alphabet[random() % alphabet.size()] + " " +
                         alphabet[random() % alphabet.size()]);
    }
    v.bos = static_cast<Token>(random() % 25) - 1;
    v.add_bos = random() % 2 == 0;
    const auto made = Tokenizer::from_gguf(v);
    if (!made) {
      EXPECT_FALSE(made.error().message.empty());
      continue;
    }
    for (const std::string_view text : {"", "abba a b", "<s>ab \n日"}) {
      if (const auto ids = made->encode(text, {.add_special = true})) {
        (void)made->decode(*ids);
      }
    }
  }
}

TEST(GgufVocabulary, AWrongTypeIsRefusedByKey) {
  const json::object good = golden::tokenizer_golden("gemma3").at("gguf").as_object();
  const std::vector<std::pair<std::string, json::value>> wrong = {
      {"tokenizer.ggml.model", nullptr},
      {"tokenizer.ggml.tokens", json::array{1}},
      {"tokenizer.ggml.tokens", json::array{}},
      {"tokenizer.ggml.scores", "high"},
      {"tokenizer.ggml.token_type", json::array{1.5}},
      {"tokenizer.ggml.bos_token_id", "bos"},
      {"tokenizer.ggml.bos_token_id", 1 << 30},
      {"tokenizer.ggml.add_bos_token", 1}};
  for (const auto& [key, value] : wrong) {
    json::object bad = good;
    bad[key] = value;
    const auto refused = read_gguf_vocabulary(bad);
    ASSERT_FALSE(refused.ok()) << key;
    EXPECT_THAT(refused.error().message, HasSubstr(key));
  }
}

}  // namespace
}  // namespace pome::text
