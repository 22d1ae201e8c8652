#include "text/chat/template_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/chat/chat_template.h"

namespace pome::text {
namespace {

using testing::AllOf;
using testing::HasSubstr;

json::object named_config() {
  return {{"chat_template",
           json::array{json::object{{"name", "tool_use"}, {"template", "{{ tools | tojson }}"}},
                       json::object{{"name", "default"}, {"template", "plain"}},
                       json::object{{"name", "rag"}, {"template", "with documents"}}}}};
}

// What a chat without and one with tools become.
std::pair<std::string, std::string> renders(const ChatTemplateSources& sources) {
  const auto chat = ChatTemplate::load(sources, {}, {});
  if (!chat) {
    return {chat.error().message, ""};
  }
  const json::array messages = {json::object{{"role", "user"}, {"content", "hi"}}};
  const auto plain = chat->render({.messages = messages});
  const auto tools = chat->render({.messages = messages, .tools = json::array{1}});
  return {plain ? plain->text : plain.error().message, tools ? tools->text : tools.error().message};
}

using Texts = std::pair<std::string, std::string>;

TEST(TemplateSources, ToolsTakeTheToolUseTemplateWhereThereIsOne) {
  const json::object config = named_config();
  ChatTemplateSources sources;
  sources.tokenizer_config = &config;
  EXPECT_EQ(renders(sources), Texts("plain", "[1]"));
  const json::object single = {{"chat_template", "alone"}};
  sources.tokenizer_config = &single;
  EXPECT_EQ(renders(sources), Texts("alone", "alone"));
}

TEST(TemplateSources, ANamedTemplateIsUsedByEveryChat) {
  const json::object config = named_config();
  ChatTemplateSources sources;
  sources.tokenizer_config = &config;
  sources.name = "rag";
  EXPECT_EQ(renders(sources), Texts("with documents", "with documents"));
  sources.name = "tool_use";
  EXPECT_EQ(renders(sources), Texts("null", "[1]"));
}

TEST(TemplateSources, ANameThatDoesNotExistIsRefusedWithThoseThatDo) {
  const json::object config = named_config();
  ChatTemplateSources sources;
  sources.tokenizer_config = &config;
  sources.name = "RAG";
  const auto refused = choose_templates(sources);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "--hf-chat-template-name: tokenizer_config.json has no template \"RAG\"; it has "
            "tool_use, default, rag");
  sources.chosen = "chatml";
  EXPECT_THAT(choose_templates(sources).error().message, HasSubstr("it has default"));
  ChatTemplateSources none;
  none.name = "default";
  EXPECT_THAT(choose_templates(none).error().message, HasSubstr("no chat template"));
}

TEST(TemplateSources, FilesOfTheFolderReplaceWhatTokenizerConfigHolds) {
  const json::object config = named_config();
  ChatTemplateSources sources;
  sources.tokenizer_config = &config;
  sources.additional = {{"tool_use", "file: {{ tools | tojson }}"}};
  sources.jinja_file = "file";
  EXPECT_EQ(renders(sources), Texts("file", "file: [1]"));
  sources.name = "rag";
  EXPECT_THAT(choose_templates(sources).error().message,
              AllOf(HasSubstr("chat_template.jinja"), HasSubstr("it has default, tool_use")));
  sources.name = std::nullopt;
  sources.additional = {{"default", "named default"}};
  EXPECT_EQ(renders(sources).first, "named default");
}

TEST(TemplateSources, AProcessorsTemplateComesAfterTheTokenizers) {
  ChatTemplateSources sources;
  sources.processor_json = R"({"chat_template": "processor"})";
  EXPECT_EQ(renders(sources).first, "processor");
  const json::object config = {{"chat_template", "tokenizer"}};
  sources.tokenizer_config = &config;
  EXPECT_EQ(renders(sources).first, "tokenizer");
  const json::object silent = {{"chat_template", nullptr}};
  sources.tokenizer_config = &silent;
  EXPECT_EQ(renders(sources).first, "processor");
  sources.processor_json = "{}";
  EXPECT_THAT(renders(sources).first, HasSubstr("chat_template.json"));
}

TEST(TemplateSources, WithoutADefaultTheFirstIsTaken) {
  ChatTemplateSources sources;
  sources.additional = {{"answer", "a"}, {"search", "b"}};
  EXPECT_EQ(renders(sources), Texts("a", "a"));
  sources.name = "search";
  EXPECT_EQ(renders(sources), Texts("b", "b"));
}

TEST(TemplateSources, ATemplateThatNoChatUsesMayBeBroken) {
  ChatTemplateSources sources;
  sources.gguf = {{"default", "good"}, {"rag", "{% broken"}};
  EXPECT_EQ(renders(sources), Texts("good", "good"));
  sources.name = "rag";
  EXPECT_THAT(renders(sources).first, HasSubstr("tokenizer.chat_template (rag)"));
  sources.name = std::nullopt;
  sources.gguf.push_back({"tool_use", "{% broken"});
  EXPECT_THAT(renders(sources).first, HasSubstr("tokenizer.chat_template (tool_use)"));
}

}  // namespace
}  // namespace pome::text
