#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer/tokenizer.h"

// Goldens of the tokenizers for the tests of the text rooms.
namespace pome::text::golden {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline json::object read_object(const std::filesystem::path& path) {
  auto parsed = parse_json(read_file(path));
  EXPECT_TRUE(parsed.ok()) << path;
  return parsed ? parsed->as_object() : json::object();
}

inline json::object tokenizer_golden(const std::string& name) {
  return read_object(std::filesystem::path(POME_SOURCE_DIR) / "tests/golden/tokenizer" /
                     (name + ".json"));
}

inline std::vector<Token> ids(const json::value& value) {
  std::vector<Token> out;
  for (const json::value& id : value.as_array()) {
    out.push_back(static_cast<Token>(id.as_int64()));
  }
  return out;
}

inline std::string text(const json::value& value) {
  return std::string(value.as_string().data(), value.as_string().size());
}

inline Tokenizer from_json(const json::object& golden) {
  auto made = Tokenizer::from_hf(to_string(golden.at("tokenizer_json")),
                                 &golden.at("tokenizer_config").as_object());
  EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
  return std::move(made).value();
}

inline Tokenizer from_gguf(const json::object& golden) {
  auto vocabulary = read_gguf_vocabulary(golden.at("gguf").as_object());
  EXPECT_TRUE(vocabulary.ok()) << (vocabulary ? "" : vocabulary.error().message);
  auto made = Tokenizer::from_gguf(*vocabulary);
  EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
  return std::move(made).value();
}

inline const std::vector<std::string>& names() {
  static const std::vector<std::string> kNames = {"qwen2", "llama_bpe", "deepseek_v3", "llama_spm",
                                                  "gemma3"};
  return kNames;
}

// Holds each case of a golden against a tokenizer.
inline void expect_equal(const Tokenizer& tokenizer, const json::object& golden) {
  for (const json::value& value : golden.at("cases").as_array()) {
    const json::object& c = value.as_object();
    const std::string input = text(c.at("text"));
    const auto plain = tokenizer.encode(input);
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    EXPECT_EQ(*plain, ids(c.at("ids"))) << input;
    const json::value* literal = c.if_contains("literal");
    EXPECT_EQ(*tokenizer.encode(input, {.parse_special = false}),
              ids(literal ? *literal : c.at("ids")))
        << "as ordinary text: " << input;
  }
  for (const json::value& value : golden.at("decodes").as_array()) {
    const json::object& d = value.as_object();
    EXPECT_EQ(tokenizer.decode(ids(d.at("ids")), {.skip_special = d.at("skip_special").as_bool()}),
              text(d.at("text")))
        << to_string(d.at("ids"));
  }
}

}  // namespace pome::text::golden
