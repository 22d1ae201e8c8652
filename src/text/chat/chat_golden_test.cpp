#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "text/chat/chat_template.h"
#include "text/tokenizer/golden.h"

namespace pome::text {
namespace {

// POME_CHAT_GOLDENS names another folder of goldens, to try more templates than the committed ones.
std::vector<std::filesystem::path> golden_files() {
  const char* other = std::getenv("POME_CHAT_GOLDENS");
  const std::filesystem::path folder =
      other ? std::filesystem::path(other)
            : std::filesystem::path(POME_SOURCE_DIR) / "tests/golden/chat";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "@TODAY %Y-%m-%d@" in a golden is the day on which the test runs.
std::string with_today(std::string text) {
  constexpr std::string_view kOpen = "@TODAY ";
  for (size_t at = text.find(kOpen); at != std::string::npos; at = text.find(kOpen, at)) {
    const size_t end = text.find('@', at + 1);
    const std::string format = text.substr(at + kOpen.size(), end - at - kOpen.size());
    const std::time_t now = std::time(nullptr);
    char today[64];
    const size_t bytes = std::strftime(today, sizeof(today), format.c_str(), std::localtime(&now));
    text.replace(at, end + 1 - at, today, bytes);
  }
  return text;
}

ChatInput input_of(const json::object& c) {
  ChatInput input;
  input.messages = c.at("messages").as_array();
  if (const json::array* tools = find_array(c, "tools")) {
    input.tools = *tools;
  }
  if (const json::object* kwargs = find_object(c, "kwargs")) {
    input.template_kwargs = *kwargs;
  }
  input.add_generation_prompt = find_bool(c, "add_generation_prompt").value_or(true);
  input.continue_final_message = find_bool(c, "continue_final_message").value_or(false);
  return input;
}

bool has_system(const json::object& c) {
  for (const json::value& message : c.at("messages").as_array()) {
    if (golden::text(message.at("role")) == "system") {
      return true;
    }
  }
  return false;
}

class ChatGolden : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(ChatGolden, RendersByteForByteWhatTheReferenceRenders) {
  const json::object golden = golden::read_object(GetParam());
  ChatTemplateSources sources;
  sources.jinja_file = golden::text(golden.at("template"));
  const auto chat =
      ChatTemplate::load(sources, golden.at("special_tokens").as_object(), {"<|im_end|>", "<bos>"});
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  for (const json::value& value : golden.at("cases").as_array()) {
    const json::object& c = value.as_object();
    const auto rendered = chat->render(input_of(c));
    if (const auto refused = find_string(c, "error")) {
      // A system message that the template refuses joins the user's message instead.
      EXPECT_TRUE(!rendered.ok() || has_system(c)) << *refused;
      continue;
    }
    ASSERT_TRUE(rendered.ok()) << rendered.error().message << to_string(c.at("messages"));
    EXPECT_EQ(rendered->text, with_today(golden::text(c.at("text"))));
    for (const TextSpan& span : rendered->literal) {
      EXPECT_EQ(rendered->text.substr(span.begin, span.end - span.begin), "<|im_end|>");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, ChatGolden, testing::ValuesIn(golden_files()),
                         [](const auto& tested) {
                           std::string name = tested.param.stem().string();
                           for (char& c : name) {
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace pome::text
