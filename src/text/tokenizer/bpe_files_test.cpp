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
  std::string added;  // added_tokens.json

  explicit Files(const json::object& golden) {
    const json::object& whole = golden.at("tokenizer_json").as_object();
    const json::object& model = whole.at("model").as_object();
    json::object tokens = model.at("vocab").as_object();
    config = golden.at("tokenizer_config").as_object();
    config["tokenizer_class"] = "Qwen2Tokenizer";
    json::object listed;
    for (const json::value& value : whole.at("added_tokens").as_array()) {
      json::object token = value.as_object();
      tokens.erase(token.at("content").as_string());
      ids[token.at("content").as_string()] = token.at("id");
      if (token.at("special").as_bool()) {
        special.push_back(token.at("content"));
      }
      const std::string id = fmt::format("{}", token.at("id").as_int64());
      token.erase("id");
      listed[id] = std::move(token);
    }
    config["added_tokens_decoder"] = std::move(listed);
    vocab = to_string(tokens);
    for (const json::value& merge : model.at("merges").as_array()) {
      merges += merge.is_string() ? golden::text(merge)
                                  : golden::text(merge.as_array().at(0)) + " " +
                                        golden::text(merge.as_array().at(1));
      merges += "\n";
    }
  }

  // As folders were written before tokenizer_config.json listed the added tokens.
  void make_old() {
    config.erase("added_tokens_decoder");
    config["additional_special_tokens"] = special;
    added = to_string(ids);
  }

  Result<Tokenizer> load() const { return Tokenizer::from_bpe_files(vocab, merges, config, added); }
  std::string refusal() const {
    const auto made = load();
    return made ? "accepted" : made.error().message;
  }

 private:
  json::object ids;
  json::array special;
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

TEST(BpeFiles, AddedTokensOfAnOldFolderAreThoseOfANewOne) {
  const json::object golden = golden::tokenizer_golden("qwen2");
  const Tokenizer whole = golden::from_json(golden);
  Files files(golden);
  files.make_old();
  const auto made = files.load();
  ASSERT_TRUE(made.ok()) << made.error().message;
  golden::expect_equal(*made, golden);
  EXPECT_EQ(made->vocab_tokens(), whole.vocab_tokens());
  EXPECT_EQ(made->special_texts(), whole.special_texts());
  EXPECT_EQ(made->eos(), whole.eos());
}

TEST(BpeFiles, AnAddedTokenThatNobodyCallsSpecialIsOneTokenAndText) {
  Files files(golden::tokenizer_golden("qwen2"));
  const auto before = files.load();
  ASSERT_TRUE(before.ok());
  files.make_old();
  const int32_t id = before->vocab_tokens() + 5;  // ids between them stay without a token
  files.added = fmt::format("{{\"<note>\": {}}}", id);
  const auto made = files.load();
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->vocab_tokens(), id + 1);
  EXPECT_THAT(*made->encode("a<note>b"), testing::Contains(id).Times(1));
  EXPECT_EQ(made->decode(*made->encode("a<note>b"), {.skip_special = true}), "a<note>b");
  EXPECT_THAT(made->special_texts(), testing::Not(testing::Contains("<note>")));
}

TEST(BpeFiles, ANewFoldersOldListIsNotLookedAt) {
  Files files(golden::tokenizer_golden("qwen2"));
  files.added = "not JSON";
  EXPECT_TRUE(files.load().ok());
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

TEST(BpeFiles, ADamagedListOfAddedTokensIsNamed) {
  Files files(golden::tokenizer_golden("qwen2"));
  files.make_old();
  for (const std::string text :
       {"[]", "{", "{\"x\": -1}", "{\"x\": 4294967296}", "{\"x\": \"1\"}", "{\"!\": 90000}"}) {
    files.added = text;
    EXPECT_THAT(files.refusal(), HasSubstr("added_tokens.json")) << text;
  }
  files.added = R"({"<far>": 2147483647})";
  EXPECT_THAT(files.refusal(), HasSubstr("the id 2147483647 of \"<far>\" is too large"));
  files.added = R"({"<one>": 90000, "<two>": 90000})";
  EXPECT_THAT(files.refusal(), HasSubstr("both have the id 90000"));
}

}  // namespace
}  // namespace pome::text
