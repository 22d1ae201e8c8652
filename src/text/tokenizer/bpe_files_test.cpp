#include <gmock/gmock.h>

#include <fmt/format.h>

#include "text/tokenizer/golden.h"
#include "text/tokenizer/tokenizer.h"

namespace pome::text {
namespace {

using testing::HasSubstr;

// A tokenizer.json taken apart into the files that a folder without one has. Published folders list
// added tokens in tokenizer_config.json alone, so vocab.json leaves them out.
struct Files {
  std::string vocab;
  std::string merges = "#version: 0.2\n";
  json::object config;

  explicit Files(const json::object& golden) {
    const json::object& whole = golden.at("tokenizer_json").as_object();
    const json::object& model = whole.at("model").as_object();
    json::object tokens = model.at("vocab").as_object();
    config = golden.at("tokenizer_config").as_object();
    config["tokenizer_class"] = "Qwen2Tokenizer";
    json::object added;
    for (const json::value& value : whole.at("added_tokens").as_array()) {
      json::object token = value.as_object();
      tokens.erase(token.at("content").as_string());
      const std::string id = fmt::format("{}", token.at("id").as_int64());
      token.erase("id");
      added[id] = std::move(token);
    }
    config["added_tokens_decoder"] = std::move(added);
    vocab = to_string(tokens);
    for (const json::value& merge : model.at("merges").as_array()) {
      merges += merge.is_string() ? golden::text(merge)
                                  : golden::text(merge.as_array().at(0)) + " " +
                                        golden::text(merge.as_array().at(1));
      merges += "\n";
    }
  }

  Result<Tokenizer> load() const { return Tokenizer::from_bpe_files(vocab, merges, config); }
  std::string refusal() const {
    const auto made = load();
    return made ? "accepted" : made.error().message;
  }
};

TEST(BpeFiles, AreTheTokenizerThatTokenizerJsonIs) {
  const json::object golden = golden::tokenizer_golden("qwen2");
  const Tokenizer whole = golden::from_json(golden);
  const auto made = Files(golden).load();
  ASSERT_TRUE(made.ok()) << made.error().message;
  golden::expect_equal(*made, golden);
  EXPECT_EQ(made->vocab_tokens(), whole.vocab_tokens());
  EXPECT_EQ(made->special_texts(), whole.special_texts());
  EXPECT_EQ(made->eos(), whole.eos());
  for (Token token = 0; token < whole.vocab_tokens(); ++token) {
    ASSERT_EQ(made->piece(token), whole.piece(token));
    ASSERT_EQ(made->piece_bytes(token).bytes, whole.piece_bytes(token).bytes);
  }
}

TEST(BpeFiles, OtherLineEndsAndTheFastClassAreTheSame) {
  const json::object golden = golden::tokenizer_golden("qwen2");
  Files files(golden);
  files.config["tokenizer_class"] = "Qwen2TokenizerFast";
  std::string with_returns;
  for (const char c : files.merges) {
    with_returns += c == '\n' ? "\r\n" : std::string(1, c);
  }
  files.merges = with_returns + "\r\n";
  const auto made = files.load();
  ASSERT_TRUE(made.ok()) << made.error().message;
  golden::expect_equal(*made, golden);
}

TEST(BpeFiles, TokensThatTheConfigurationNamesAreSpecial) {
  Files files(golden::tokenizer_golden("qwen2"));
  files.config.erase("added_tokens_decoder");
  files.config["additional_special_tokens"] = json::array{"!"};
  files.config["bos_token"] = json::object{{"content", "#"}};
  const auto made = files.load();
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_THAT(made->special_texts(), testing::UnorderedElementsAre("!", "#"));
}

TEST(BpeFiles, ThePrefixSpaceOfGpt2IsHonoured) {
  Files files(golden::tokenizer_golden("qwen2"));
  files.config["tokenizer_class"] = "GPT2Tokenizer";
  const auto plain = files.load();
  files.config["add_prefix_space"] = true;
  const auto prefixed = files.load();
  ASSERT_TRUE(plain.ok() && prefixed.ok());
  EXPECT_EQ(*prefixed->encode("hello"), *plain->encode(" hello"));
  EXPECT_NE(*plain->encode("hello"), *plain->encode(" hello"));
}

TEST(BpeFiles, AnotherClassIsRefusedWithTheKnownOnes) {
  Files files(golden::tokenizer_golden("qwen2"));
  for (const std::string name : {"RobertaTokenizer", ""}) {
    files.config["tokenizer_class"] = name;
    EXPECT_THAT(files.refusal(), HasSubstr("\"" + name + "\""));
    EXPECT_THAT(files.refusal(), HasSubstr("Qwen2Tokenizer and GPT2Tokenizer"));
  }
}

TEST(BpeFiles, DamagedFilesAreNamed) {
  const Files good(golden::tokenizer_golden("qwen2"));
  const auto refusal = [&](auto damage) {
    Files files = good;
    damage(files);
    return files.refusal();
  };
  EXPECT_THAT(refusal([](Files& f) { f.vocab.resize(f.vocab.size() / 2); }),
              HasSubstr("vocab.json"));
  EXPECT_THAT(refusal([](Files& f) { f.vocab = "[]"; }), HasSubstr("vocab.json"));
  EXPECT_THAT(refusal([](Files& f) { f.vocab = R"({"a": 1, "b": 1})"; }), HasSubstr("the id 1"));
  EXPECT_THAT(refusal([](Files& f) { f.vocab = R"({"a": -1})"; }), HasSubstr("vocab.json"));
  EXPECT_THAT(refusal([](Files& f) { f.vocab = R"({"a": 4294967295})"; }), HasSubstr("too large"));
  EXPECT_THAT(refusal([](Files& f) { f.merges += "alone\n"; }), HasSubstr("alone"));
  EXPECT_THAT(refusal([](Files& f) { f.merges += "qqqqq zzzzz\n"; }),
              HasSubstr("not in the vocabulary"));
  EXPECT_THAT(refusal([](Files& f) {
                f.config["added_tokens_decoder"] = json::object{{"x", json::object()}};
              }),
              HasSubstr("added_tokens_decoder"));
  EXPECT_THAT(
      refusal([](Files& f) {
        f.config["added_tokens_decoder"] = json::object{{"9", json::object{{"content", "!"}}}};
      }),
      HasSubstr("another id"));
}

}  // namespace
}  // namespace pome::text
