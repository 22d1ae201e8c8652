#include "tensor/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tensor/files/test_files.h"

namespace pome::tensor {
namespace {

using test::GgufBuilder;
using test::safetensors_file;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kOneByte = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";

std::string open_error(const std::filesystem::path& path) {
  const auto checkpoint = Checkpoint::open(path);
  return checkpoint ? "no error" : checkpoint.error().message;
}

TEST(Checkpoint, AFolderGivesConfigTensorsAndSideFiles) {
  const TempFolder folder;
  folder.write("config.json", R"({"model_type":"qwen3","hidden_size":8})");
  folder.write("generation_config.json", R"({"eos_token_id":2})");
  folder.write("model.safetensors", safetensors_file(kOneByte, "x"));
  folder.write("tokenizer.json", "{}");
  folder.write("additional_chat_templates/tool_use.jinja", "hello");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->format(), CheckpointFormat::hf_folder);
  EXPECT_EQ(checkpoint->model_type(), "qwen3");
  EXPECT_EQ(find_int(checkpoint->config(), "hidden_size"), 8);
  ASSERT_NE(checkpoint->generation_config(), nullptr);
  ASSERT_NE(checkpoint->find("a"), nullptr);
  EXPECT_EQ(checkpoint->find("b"), nullptr);
  const auto files = checkpoint->side_files();
  ASSERT_TRUE(files);
  EXPECT_EQ(files->read("tokenizer.json"), "{}");
  EXPECT_EQ(files->read("chat_template.jinja"), std::nullopt);
  EXPECT_EQ(files->read("additional_chat_templates/tool_use.jinja"), "hello");
  EXPECT_TRUE(files->has("tokenizer.json"));
  EXPECT_FALSE(files->has("chat_template.jinja"));
  EXPECT_THAT(files->list("additional_chat_templates"), ElementsAre("tool_use.jinja"));
  EXPECT_THAT(files->list("no_such_folder"), ElementsAre());
  EXPECT_EQ(checkpoint->file_bytes(),
            std::filesystem::file_size(folder.path() / "model.safetensors"));
}

TEST(Checkpoint, SideFilesStayInsideTheFolder) {
  const TempFolder outer;
  outer.write("secret", "s");
  outer.write("model/config.json", "{}");
  const SideFiles files(outer.path() / "model");
  EXPECT_EQ(files.read("config.json"), "{}");
  for (const std::string& name : {std::string("../secret"), std::string("a/../../secret"),
                                  (outer.path() / "secret").string(), std::string()}) {
    EXPECT_EQ(files.read(name), std::nullopt) << name;
    EXPECT_FALSE(files.has(name)) << name;
  }
  EXPECT_THAT(files.list(".."), ElementsAre());
}

TEST(Checkpoint, AGgufFileOpensByItselfAndFromItsFolder) {
  const TempFolder folder;
  const auto file = folder.write(
      "model.gguf",
      GgufBuilder().text("general.architecture", "llama").tensor("t", 0, {2}, "12345678").build());
  for (const auto& path : {file, folder.path()}) {
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->format(), CheckpointFormat::gguf);
    EXPECT_EQ(checkpoint->model_type(), "llama");
    EXPECT_EQ(checkpoint->find("t")->shape, (std::vector<int64_t>{2}));
    EXPECT_EQ(checkpoint->generation_config(), nullptr);
    EXPECT_FALSE(checkpoint->side_files());
  }
}

TEST(Checkpoint, SafetensorsComeBeforeAGgufFileOfTheSameFolder) {
  const TempFolder folder;
  folder.write("model.gguf", GgufBuilder().build());
  folder.write("config.json", "{}");
  EXPECT_EQ(Checkpoint::open(folder.path())->format(), CheckpointFormat::gguf);
  folder.write("model.safetensors", safetensors_file(kOneByte, "x"));
  EXPECT_EQ(Checkpoint::open(folder.path())->format(), CheckpointFormat::hf_folder);
}

TEST(Checkpoint, TheMappingOutlivesTheCheckpoint) {
  const TempFolder folder;
  folder.write("m.gguf", GgufBuilder().tensor("t", 0, {2}, "12345678").build());
  auto checkpoint = std::make_unique<Checkpoint>(*Checkpoint::open(folder.path() / "m.gguf"));
  const FileTensor tensor = *checkpoint->find("t");
  checkpoint.reset();
  EXPECT_EQ(static_cast<char>(tensor.bytes[0]), '1');
  tensor.file->drop(tensor.bytes);
  EXPECT_EQ(static_cast<char>(tensor.bytes[7]), '8');
}

TEST(Checkpoint, WhatIsNoModelIsAnErrorThatSaysWhatWasExpected) {
  const TempFolder folder;
  EXPECT_THAT(open_error(folder.path() / "none"), HasSubstr("does not exist"));
  EXPECT_EQ(Checkpoint::open(folder.path() / "none").error().code, ErrorCode::not_found);
  EXPECT_THAT(open_error(folder.path()), HasSubstr("expected config.json or one *.gguf file"));
  EXPECT_THAT(open_error(folder.write("a.safetensors", "")), HasSubstr("expected the folder"));
  EXPECT_THAT(open_error(folder.write("a.bin", "")), HasSubstr("\"GGUF\""));
  EXPECT_THAT(open_error("/dev/null"), HasSubstr("not a plain file"));
  folder.write("config.json", "[]");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("expected an object, got array"));
  folder.write("config.json", "{");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("config.json: invalid JSON"));
  folder.write("config.json", "{}");
  folder.write("generation_config.json", "nope");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("generation_config.json"));
  folder.write("generation_config.json", "{}");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("a.safetensors"));
}

TEST(Checkpoint, AnErrorInAFileNamesTheFile) {
  const TempFolder folder;
  const std::string file = GgufBuilder().tensor("t", 0, {2}, "12345678").build();
  const auto path = folder.write("cut.gguf", file.substr(0, file.size() - 1));
  EXPECT_THAT(open_error(path), HasSubstr("cut.gguf"));
  EXPECT_THAT(open_error(path), HasSubstr("\"t\""));
}

TEST(ReadFile, TheLimitItselfIsReadAndOneMoreByteIsRefused) {
  const TempFolder folder;
  const auto path = folder.write("f", "12345");
  EXPECT_EQ(**read_file(path, 5), "12345");
  EXPECT_EQ(read_file(path, 4).error().code, ErrorCode::too_large);
  EXPECT_EQ(*read_file(folder.path() / "none", 5), std::nullopt);
}

}  // namespace
}  // namespace pome::tensor
