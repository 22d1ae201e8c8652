#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tensor/checkpoint/checkpoint.h"
#include "text/stream/text_stream.h"
#include "text/tokenizer/golden.h"
#include "text/tokenizer/tokenizer.h"

namespace pome {
namespace {

std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("POME_CACHE")) {
    return cache;
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "." : home) / ".cache" / "pome";
}

// The file in the cache or in one of its folders.
std::filesystem::path find_file(const std::string& name) {
  std::error_code error;
  const std::filesystem::path cache = cache_folder();
  if (std::filesystem::exists(cache / name, error)) {
    return cache / name;
  }
  for (std::filesystem::directory_iterator it(cache, error), end; !error && it != end;
       it.increment(error)) {
    if (std::filesystem::exists(it->path() / name, error)) {
      return it->path() / name;
    }
  }
  return {};
}

class RealTokenizer : public testing::TestWithParam<std::string> {};

TEST_P(RealTokenizer, FromGgufGivesTheReferencesIdsAndTexts) {
  const json::object golden = text::golden::tokenizer_golden(GetParam());
  const std::string name = text::golden::text(golden.at("name"));
  const std::filesystem::path path = find_file(name);
  if (path.empty()) {
    GTEST_SKIP() << name << " is not in " << cache_folder().string();
  }
  const auto checkpoint = tensor::Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto start = std::chrono::steady_clock::now();
  const auto vocabulary = text::read_gguf_vocabulary(checkpoint->config());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  const auto tokenizer = text::Tokenizer::from_gguf(*vocabulary);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  RecordProperty("load_ms", static_cast<int>(1000 * taken.count()));
  text::golden::expect_equal(*tokenizer, golden);
  for (const json::value& value : golden.at("decodes").as_array()) {
    const auto tokens = text::golden::ids(value.at("ids"));
    const bool skip = value.at("skip_special").as_bool();
    text::TextStream stream(*tokenizer, {.skip_special = skip});
    std::string shown;
    for (const Token token : tokens) {
      shown += stream.push(std::span(&token, 1)).text;
    }
    EXPECT_EQ(shown + stream.finish().text, text::golden::text(value.at("text")));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, RealTokenizer, testing::Values("real_smollm2", "real_gemma3"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace pome
