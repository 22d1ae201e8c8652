#include "pome/model/model_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/generation/echo_text.h"

namespace pome::apps {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::optional<std::string> no_environment(std::string_view) {
  return std::nullopt;
}

Settings settings_with(const GivenFlags& flags) {
  return Settings::resolve(flags, no_environment).value();
}

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / ("model_text_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder / "additional_chat_templates");
  return folder;
}

void write(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A folder that has weights to open, and no tokenizer yet.
tensor::Checkpoint checkpoint_in(const fs::path& folder) {
  const std::string source = POME_SOURCE_DIR "/tests/golden/llm/qwen3/";
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(source + name, folder / name);
  }
  return tensor::Checkpoint::open(folder).value();
}

// Three tokens, and those that a Qwen 2 folder's configuration adds.
void write_bpe_files(const fs::path& folder) {
  write(folder / "vocab.json", R"({"a":0,"b":1,"ab":2})");
  write(folder / "merges.txt", "#version: 0.2\na b\n");
  write(folder / "tokenizer_config.json",
        R"({"tokenizer_class":"Qwen2Tokenizer","eos_token":"<end>",
            "added_tokens_decoder":{"3":{"content":"<end>","special":true}}})");
}

std::string chat_text(const server::ServedText& text) {
  const auto rendered =
      text.chat->render({.messages = {json::object{{"role", "user"}, {"content", "hi"}}}});
  return rendered ? rendered->text : rendered.error().message;
}

TEST(ChosenTemplates, IsAFileOrChatmlAndNotTheNameOfAnAbsentFile) {
  const fs::path file = fresh_folder("chosen") / "chosen.jinja";
  write(file, "{{ messages }}");
  EXPECT_EQ(*chosen_templates(settings_with({{"--chat-template", {file.string()}}}))->chosen,
            "{{ messages }}");
  EXPECT_EQ(*chosen_templates(settings_with({{"--chat-template", {"chatml"}}}))->chosen, "chatml");
  fs::remove(file);
  const auto absent = chosen_templates(settings_with({{"--chat-template", {file.string()}}}));
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(absent.error().message, HasSubstr(file.string()));
}

TEST(ModelText, TheNamedTemplateOfAFolderIsChosenByAFlag) {
  const fs::path folder = fresh_folder("named");
  const auto checkpoint = checkpoint_in(folder);
  write_bpe_files(folder);
  write(folder / "chat_template.jinja", "default");
  write(folder / "additional_chat_templates/rag.jinja", "rag {{ eos_token }}");
  write(folder / "additional_chat_templates/notes.txt", "no template");
  const auto plain = read_model_text(checkpoint, settings_with({}));
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_EQ(chat_text(*plain), "default");
  const auto named =
      read_model_text(checkpoint, settings_with({{"--hf-chat-template-name", {"rag"}}}));
  ASSERT_TRUE(named.ok()) << named.error().message;
  EXPECT_EQ(chat_text(*named), "rag <end>");
  const auto wrong =
      read_model_text(checkpoint, settings_with({{"--hf-chat-template-name", {"notes"}}}));
  EXPECT_THAT(wrong.error().message, HasSubstr("has no template \"notes\"; it has default, rag"));
}

TEST(ModelText, AnOldFoldersSpecialTokensStandInFilesOfTheirOwn) {
  const fs::path folder = fresh_folder("old");
  const auto checkpoint = checkpoint_in(folder);
  write_bpe_files(folder);
  write(folder / "tokenizer_config.json", R"({"tokenizer_class":"Qwen2Tokenizer"})");
  write(folder / "added_tokens.json", R"({"<end>":3,"<turn>":4,"<tag>":5})");
  write(folder / "special_tokens_map.json",
        R"({"eos_token":{"content":"<end>"},"additional_special_tokens":["<turn>"]})");
  const auto text = read_model_text(checkpoint, settings_with({}));
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(text->tokenizer.eos(), 3);
  EXPECT_EQ(*text->tokenizer.encode("ab<turn>a<end><tag>"), (std::vector<Token>{2, 4, 0, 3, 5}));
  EXPECT_THAT(text->tokenizer.special_texts(), testing::UnorderedElementsAre("<end>", "<turn>"));
  write(folder / "special_tokens_map.json", "[]");
  EXPECT_THAT(read_model_text(checkpoint, settings_with({})).error().message,
              HasSubstr("special_tokens_map.json: expected an object"));
}

TEST(ModelText, ATemplateNameWithoutAnyTemplateIsRefused) {
  const fs::path folder = fresh_folder("unnamed");
  const auto checkpoint = checkpoint_in(folder);
  write_bpe_files(folder);
  EXPECT_FALSE(read_model_text(checkpoint, settings_with({}))->chat);
  const auto refused =
      read_model_text(checkpoint, settings_with({{"--hf-chat-template-name", {"rag"}}}));
  EXPECT_THAT(refused.error().message, HasSubstr("no chat template"));
}

TEST(ModelText, AFolderWithoutAKnownTokenizerSaysWhatItHas) {
  const fs::path folder = fresh_folder("bare");
  const auto checkpoint = checkpoint_in(folder);
  EXPECT_THAT(read_model_text(checkpoint, settings_with({})).error().message,
              HasSubstr("vocab.json with merges.txt"));
  write(folder / "tokenizer.model", "sentences");
  EXPECT_THAT(read_model_text(checkpoint, settings_with({})).error().message,
              HasSubstr("tokenizer.model (SentencePiece) is not read"));
  write(folder / "tokenizer_config.json", "[]");
  EXPECT_THAT(read_model_text(checkpoint, settings_with({})).error().message,
              HasSubstr("tokenizer_config.json: expected an object, got array"));
}

TEST(AnswerForms, ComeFromTheTemplateUnlessAFlagNamesThem) {
  const auto forms_with = [](const GivenFlags& flags, const std::string& jinja) {
    text::ChatTemplateSources sources;
    sources.chosen = jinja;
    server::ServedText text = server::make_echo_text(std::move(sources)).value();
    EXPECT_TRUE(choose_forms(settings_with(flags), text));
    return text.forms.calls_name() + "/" + text.forms.reasoning_name();
  };
  const std::string jinja =
      "{%- if tools %}<tool_call>{'name': name}</tool_call>{% endif %}{{ enable_thinking }}"
      "{%- for message in messages %}{{ message.content }}{% endfor %}<think>";
  EXPECT_EQ(forms_with({}, jinja), "hermes/qwen3");
  EXPECT_EQ(forms_with({{"--tool-call-parser", {"none"}}, {"--reasoning-parser", {"none"}}}, jinja),
            "/");
  EXPECT_EQ(forms_with({{"--tool-call-parser", {"mistral"}}}, jinja), "mistral/qwen3");
  EXPECT_EQ(forms_with({}, "{%- for m in messages %}{{ m.content }}{% endfor %}"), "/");
}

}  // namespace
}  // namespace pome::apps
