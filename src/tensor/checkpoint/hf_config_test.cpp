#include "tensor/checkpoint/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tensor/checkpoint/load_error.h"
#include "tensor/files/test_files.h"

namespace pome::tensor {
namespace {

using test::GgufBuilder;
using test::safetensors_file;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

Checkpoint folder_with(const TempFolder& folder, std::string_view config,
                       std::string_view generation = "") {
  folder.write("config.json", config);
  if (!generation.empty()) {
    folder.write("generation_config.json", generation);
  }
  folder.write("model.safetensors", safetensors_file("{}", ""));
  return *Checkpoint::open(folder.path());
}

Checkpoint gguf_with(const TempFolder& folder, const GgufBuilder& builder) {
  return *Checkpoint::open(folder.write("m.gguf", builder.build()));
}

template <typename Call>
std::string load_error(Call call) {
  try {
    (void)call();
  } catch (const LoadError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HfConfig, GettersReturnWhatTheFileSays) {
  const TempFolder folder;
  const HfConfig c(folder_with(folder, R"({"n":2,"d":2.0,"x":1e-6,"s":"silu","b":true,"z":null,
      "ints":[1,2],"reals":[1,0.5],"names":["a","b"],"o":{"factor":8.0}})"));
  EXPECT_EQ(c.get_int("n"), 2);
  EXPECT_EQ(c.get_int("d"), 2);
  EXPECT_FLOAT_EQ(c.get_float("x"), 1e-6f);
  EXPECT_EQ(c.get_float("n"), 2.0f);
  EXPECT_EQ(c.get_string("s"), "silu");
  EXPECT_TRUE(c.get_bool_or("b", false));
  EXPECT_THAT(c.get_ints("ints"), ElementsAre(1, 2));
  EXPECT_THAT(c.get_floats("reals"), ElementsAre(1.0f, 0.5f));
  EXPECT_THAT(c.get_strings("names"), ElementsAre("a", "b"));
  EXPECT_EQ(c.nested("o")->get_float("factor"), 8.0f);
  EXPECT_FALSE(c.nested("none"));
}

TEST(HfConfig, NullAndAbsentGiveTheFallback) {
  const TempFolder folder;
  const HfConfig c(folder_with(folder, R"({"z":null})"));
  EXPECT_FALSE(c.has("z"));
  EXPECT_EQ(c.get_int_or("z", 7), 7);
  EXPECT_EQ(c.get_float_or("z", 0.5f), 0.5f);
  EXPECT_EQ(c.get_string_or("none", "x"), "x");
  EXPECT_TRUE(c.get_bool_or("none", true));
  EXPECT_EQ(load_error([&] { return c.get_int("z"); }), "[config] \"z\" is missing");
}

TEST(HfConfig, WrongTypesAndRangesSayWhatWasExpectedAndGot) {
  const TempFolder folder;
  const HfConfig c(folder_with(folder, R"({"s":"a","n":0,"big":3000000000,"half":1.5,"o":{"f":"x"},
      "list":[1,"a"],"neg":-1.0})"));
  EXPECT_EQ(load_error([&] { return c.get_int("s"); }),
            "[config] expected \"s\" to be an integer from 1 to 2147483647, got \"a\"");
  EXPECT_THAT(load_error([&] { return c.get_int("n"); }), HasSubstr("got 0"));
  EXPECT_EQ(load_error([&] { return c.get_int("n", {.least = 0}); }), "no error");
  EXPECT_THAT(load_error([&] { return c.get_int("big"); }), HasSubstr("got 3000000000"));
  EXPECT_THAT(load_error([&] { return c.get_int("half"); }), HasSubstr("an integer"));
  EXPECT_THAT(load_error([&] { return c.get_int_or("s", 1); }), HasSubstr("\"s\""));
  EXPECT_THAT(load_error([&] { return c.get_float("neg"); }), HasSubstr("a number from 0"));
  EXPECT_THAT(load_error([&] { return c.get_bool_or("n", true); }), HasSubstr("true or false"));
  EXPECT_THAT(load_error([&] { return c.get_string("n"); }), HasSubstr("a string"));
  EXPECT_THAT(load_error([&] { return c.get_ints("list"); }), HasSubstr("\"list\""));
  EXPECT_THAT(load_error([&] { return c.get_ints("n"); }), HasSubstr("an array"));
  EXPECT_THAT(load_error([&] { return c.nested("n"); }), HasSubstr("an object"));
  EXPECT_THAT(load_error([&] { return c.nested("o")->get_float("f"); }), HasSubstr("\"o.f\""));
}

TEST(HfConfig, KeysOfANestedTextConfigComeFirst) {
  const TempFolder folder;
  const HfConfig c(folder_with(folder, R"({"model_type":"gemma3","hidden_size":1,"image_size":896,
      "text_config":{"hidden_size":640}})"));
  EXPECT_EQ(c.get_int("hidden_size"), 640);
  EXPECT_EQ(c.get_int("image_size"), 896);
  EXPECT_EQ(c.model_type(), "gemma3");
}

TEST(HfConfig, GgufMetadataIsReadUnderHuggingFacesKeys) {
  const TempFolder folder;
  const HfConfig c(gguf_with(folder, GgufBuilder()
                                         .text("general.architecture", "llama")
                                         .u32("llama.embedding_length", 576)
                                         .u32("llama.block_count", 30)
                                         .f32("llama.rope.freq_base", 10000.0f)
                                         .u32("llama.special", 5)
                                         .texts("tokenizer.ggml.tokens", {"a", "b", "c"})),
                   {{"special", "{arch}.special"}});
  EXPECT_TRUE(c.from_gguf());
  EXPECT_EQ(c.get_int("hidden_size"), 576);
  EXPECT_EQ(c.get_int("num_hidden_layers"), 30);
  EXPECT_EQ(c.get_float("rope_theta"), 10000.0f);
  EXPECT_EQ(c.get_int("special"), 5);
  EXPECT_EQ(c.get_int("vocab_size"), 3);
  EXPECT_EQ(load_error([&] { return c.get_int("num_attention_heads"); }),
            "[config] \"llama.attention.head_count\" (num_attention_heads) is missing");
}

TEST(GenerationDefaults, AFolderGivesEosIdsAndSampling) {
  const TempFolder folder;
  const auto d = read_generation_defaults(folder_with(folder, R"({"eos_token_id":9})", R"({
      "eos_token_id":[7,3,7],"bos_token_id":1,"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":0.0,
      "repetition_penalty":1.1,"do_sample":true})"));
  ASSERT_TRUE(d) << d.error().message;
  EXPECT_THAT(d->eos_token_ids, ElementsAre(3, 7));
  EXPECT_EQ(d->bos_token_id, 1);
  EXPECT_FLOAT_EQ(*d->temperature, 0.6f);
  EXPECT_FLOAT_EQ(*d->top_p, 0.95f);
  EXPECT_EQ(d->top_k, 20);
  EXPECT_EQ(d->min_p, 0.0f);
  EXPECT_FLOAT_EQ(*d->repetition_penalty, 1.1f);
  EXPECT_EQ(d->do_sample, true);
}

TEST(GenerationDefaults, WithoutAGenerationConfigTheConfigGivesEosIds) {
  const TempFolder folder;
  const auto d = read_generation_defaults(folder_with(folder, R"({"eos_token_id":null,"text_config":
      {"eos_token_id":106}})"));
  ASSERT_TRUE(d);
  EXPECT_THAT(d->eos_token_ids, ElementsAre(106));
  EXPECT_FALSE(d->temperature);
}

TEST(GenerationDefaults, WrongValuesAreErrorsThatNameTheKey) {
  for (const auto& [generation, key] : std::vector<std::pair<std::string, std::string>>{
           {R"({"eos_token_id":"x"})", "eos_token_id"},
           {R"({"eos_token_id":[-1]})", "eos_token_id"},
           {R"({"temperature":-0.1})", "temperature"},
           {R"({"top_p":1.5})", "top_p"},
           {R"({"top_k":1.5})", "top_k"},
           {R"({"top_k":-2})", "top_k"},
           {R"({"min_p":"0"})", "min_p"},
           {R"({"repetition_penalty":0})", "repetition_penalty"}}) {
    const TempFolder folder;
    const auto d = read_generation_defaults(folder_with(folder, "{}", generation));
    ASSERT_FALSE(d) << generation;
    EXPECT_THAT(d.error().message, HasSubstr(key));
  }
}

TEST(GenerationDefaults, GgufGivesItsIdsAndControlTokensThatEndATurn) {
  const TempFolder folder;
  const auto d = read_generation_defaults(gguf_with(
      folder, GgufBuilder()
                  .u32("tokenizer.ggml.eos_token_id", 1)
                  .u32("tokenizer.ggml.eot_token_id", 5)
                  .u32("tokenizer.ggml.bos_token_id", 0)
                  .f32("general.sampling.temp", 0.5f)
                  .u32("general.sampling.top_k", 64)
                  .texts("tokenizer.ggml.tokens",
                         {"<s>", "</s>", "<|im_end|>", "<end_of_turn>", "<|im_start|>", "x"})
                  .numbers<int32_t>("tokenizer.ggml.token_type", 5, {3, 3, 3, 1, 3, 1})));
  ASSERT_TRUE(d) << d.error().message;
  // "<end_of_turn>" is an ordinary token here, so text may contain it.
  EXPECT_THAT(d->eos_token_ids, ElementsAre(1, 2, 5));
  EXPECT_EQ(d->bos_token_id, 0);
  EXPECT_EQ(d->temperature, 0.5f);
  EXPECT_EQ(d->top_k, 64);
}

TEST(HfConfig, MutatedConfigsNeverCrash) {
  const std::string config =
      R"({"model_type":"q","hidden_size":8,"eos_token_id":[1,2],"rope_scaling":{"factor":2.0},)"
      R"("text_config":{"hidden_size":4},"quantization":{"bits":4,"group_size":64}})";
  for (const uint32_t seed : {1u, 2u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 200; ++round) {
      std::string mutated = config;
      constexpr std::string_view kMarks = "\"{}[]:,0123456789-.ntf";
      for (auto edits = 1 + random() % 3; edits > 0; --edits) {
        mutated[random() % mutated.size()] = kMarks[random() % kMarks.size()];
      }
      const TempFolder folder;
      folder.write("config.json", mutated);
      folder.write("model.safetensors", safetensors_file("{}", ""));
      const auto checkpoint = Checkpoint::open(folder.path());
      if (!checkpoint) {
        continue;
      }
      const HfConfig c(*checkpoint);
      (void)load_error([&] { return c.get_int("hidden_size"); });
      (void)load_error([&] { return c.nested("rope_scaling").has_value(); });
      (void)read_generation_defaults(*checkpoint);
    }
  }
}

}  // namespace
}  // namespace pome::tensor
