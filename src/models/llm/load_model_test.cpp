#include "models/llm/load_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/json.h"

namespace pome::models {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

fs::path golden(const std::string& name) {
  return fs::path(POME_SOURCE_DIR) / "tests/golden/llm" / name;
}

// A copy of a golden's folder that a test may damage.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(fs::path(::testing::TempDir()) /
              fmt::format("load_model_{}_{}", name,
                          ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(path_);
    fs::copy(golden(name), path_);
    fs::remove(path_ / "model.gguf");
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }

  void set(std::string_view key, const json::value& value) {
    change_config([&](json::object& config) { config[key] = value; });
  }
  void change_config(const std::function<void(json::object&)>& change) {
    std::ifstream in(path_ / "config.json");
    std::stringstream text;
    text << in.rdbuf();
    json::value config = *parse_json(text.str());
    change(config.as_object());
    std::ofstream(path_ / "config.json") << to_string(config);
  }

  using Tensors = std::unordered_map<std::string, mx::array>;
  void change_tensors(const std::function<void(Tensors&)>& change) {
    const std::string file = (path_ / "model.safetensors").string();
    Tensors tensors = mx::load_safetensors(file).first;
    for (auto& [name, tensor] : tensors) {
      tensor.eval();
    }
    change(tensors);
    mx::save_safetensors(file, tensors);
  }

 private:
  fs::path path_;
};

std::string refusal(const fs::path& path) {
  const Result<std::unique_ptr<LanguageModel>> model = load_model(path);
  if (model.ok()) {
    return "it loaded";
  }
  EXPECT_EQ(model.error().code, ErrorCode::invalid_argument);
  return model.error().message;
}

TEST(LoadModel, TellsWhatAModelIs) {
  const Result<std::unique_ptr<LanguageModel>> model = load_model(golden("llama"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  const LanguageModelInfo& info = (*model)->info();
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_EQ(info.format, "safetensors F32");
  EXPECT_EQ(info.vocab_tokens, 199);
  EXPECT_EQ(info.context_tokens, 256);
  EXPECT_EQ(info.hidden_size, 48);
  EXPECT_THAT(info.eos_tokens, ElementsAre(2, 7));
}

TEST(LoadModel, NamesTheFormatOfGgufAndMlxFiles) {
  const auto gguf = load_model(golden("llama") / "model.gguf");
  const auto mlx = load_model(golden("qwen3_mlx"));
  ASSERT_TRUE(gguf.ok() && mlx.ok());
  EXPECT_EQ((*gguf)->info().format, "GGUF F16");
  EXPECT_EQ((*mlx)->info().format, "MLX 4-bit");
}

TEST(LoadModel, PutsWindowedLayersIntoAGroupOfTheirOwn) {
  const Result<std::unique_ptr<LanguageModel>> model = load_model(golden("gemma3"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  const kvcache::CacheSpec spec = (*model)->cache_spec(16, {});
  ASSERT_EQ(spec.groups.size(), 2u);
  EXPECT_EQ(spec.groups[0].kind, kvcache::GroupKind::full);
  EXPECT_THAT(spec.groups[0].layers, ElementsAre(1));
  EXPECT_EQ(spec.groups[1].kind, kvcache::GroupKind::window);
  EXPECT_EQ(spec.groups[1].window, 11);
  EXPECT_THAT(spec.groups[1].layers, ElementsAre(0, 2));
  // keys and values · 16 tokens · 1 head of 24 · 2 bytes · 2 layers
  EXPECT_EQ(spec.groups[1].bytes_per_page, 2 * 16 * 24 * 2 * 2);
}

TEST(LoadModel, RefusesAnArchitectureItDoesNotKnowAndListsThoseItDoes) {
  Folder folder("qwen3");
  folder.set("model_type", "qwen17");
  const std::string message = refusal(folder.path());
  EXPECT_THAT(message, HasSubstr("\"qwen17\""));
  for (const std::string& name : supported_architectures()) {
    EXPECT_THAT(message, HasSubstr(name));
  }
}

TEST(LoadModel, RefusesAConfigThatItWouldNotHonour) {
  const std::vector<std::tuple<std::string, std::string, json::value>> cases = {
      {"qwen3", "hidden_act", "gelu"},
      {"qwen3", "use_sliding_window", true},
      {"qwen3", "layer_types", json::array{"full_attention", "sliding_attention"}},
      {"llama", "mlp_bias", true},
      {"gemma3", "hidden_activation", "silu"},
      {"gemma3", "attention_bias", true},
      {"gemma3", "final_logit_softcapping", 30.0},
      {"gemma3", "attn_logit_softcapping", 50.0},
      {"gemma3", "use_bidirectional_attention", true},
      {"gemma3", "layer_types", json::array{"sliding_attention", "linear_attention", "x"}},
      {"gemma3", "layer_types", json::array{"sliding_attention"}},
      {"llama", "num_key_value_heads", 2},
      {"llama", "head_dim", 20},
      {"llama", "head_dim", 264},
      {"llama", "num_hidden_layers", 0},
      {"llama", "rms_norm_eps", "small"},
  };
  for (const auto& [model, key, value] : cases) {
    Folder folder(model);
    folder.set(key, value);
    EXPECT_THAT(refusal(folder.path()), HasSubstr(key)) << model;
  }
}

TEST(LoadModel, RefusesRopeScalingThatItDoesNotImplement) {
  const std::vector<std::pair<json::object, std::string>> cases = {
      {{{"rope_type", "dynamic"}, {"factor", 2.0}}, "dynamic"},
      {{{"rope_type", "longrope"}, {"factor", 2.0}}, "longrope"},
      {{{"rope_type", "linear"}}, "factor"},
      {{{"rope_type", "linear"}, {"factor", 0.0}}, "factor"},
      {{{"rope_type", "yarn"}, {"factor", 4.0}}, "original_max_position_embeddings"},
      {{{"rope_type", "yarn"},
        {"factor", 4.0},
        {"original_max_position_embeddings", 64},
        {"mscale", 1.0}},
       "mscale"},
      {{{"rope_type", "llama3"},
        {"factor", 8.0},
        {"low_freq_factor", 4.0},
        {"high_freq_factor", 4.0},
        {"original_max_position_embeddings", 64}},
       "high_freq_factor"},
      {{{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
  };
  for (const auto& [rope, named] : cases) {
    Folder folder("llama");
    folder.set("rope_parameters", rope);
    EXPECT_THAT(refusal(folder.path()), HasSubstr(named));
  }
}

TEST(LoadModel, NamesAMissingTensor) {
  Folder folder("qwen3");
  folder.change_tensors([](auto& tensors) { tensors.erase("model.layers.1.mlp.up_proj.weight"); });
  EXPECT_THAT(refusal(folder.path()), HasSubstr("model.layers.1.mlp.up_proj.weight"));
}

TEST(LoadModel, NamesATensorThatNobodyReads) {
  Folder folder("qwen3");
  folder.change_tensors([](auto& tensors) {
    tensors.insert_or_assign("model.layers.1.self_attn.q_proj.bias", mx::ones({72}));
  });
  EXPECT_THAT(refusal(folder.path()), HasSubstr("model.layers.1.self_attn.q_proj.bias"));
}

TEST(LoadModel, NamesATensorOfAnotherShape) {
  Folder folder("qwen3");
  folder.change_tensors([](auto& tensors) {
    tensors.insert_or_assign("model.layers.0.self_attn.k_norm.weight", mx::ones({25}));
  });
  EXPECT_THAT(refusal(folder.path()), HasSubstr("model.layers.0.self_attn.k_norm.weight"));
}

TEST(LoadModel, AcceptsATiedHeadThatIsRepeatedAndOldRopeBuffers) {
  Folder folder("llama");
  folder.set("tie_word_embeddings", true);
  folder.change_tensors([](auto& tensors) {
    tensors.insert_or_assign("model.layers.0.self_attn.rotary_emb.inv_freq", mx::ones({8}));
  });
  const auto model = load_model(folder.path());
  EXPECT_TRUE(model.ok()) << model.error().message;
}

// "model.…" as transformers has it in memory since 4.52; files may have either.
void put_language_model_inside(Folder& folder) {
  folder.change_tensors([](Folder::Tensors& tensors) {
    Folder::Tensors renamed;
    for (const auto& [name, tensor] : tensors) {
      constexpr std::string_view kOuter = "language_model.model.";
      renamed.emplace(name.starts_with(kOuter)
                          ? "model.language_model." + name.substr(kOuter.size())
                          : "model." + name,
                      tensor);
    }
    tensors = std::move(renamed);
  });
}

TEST(LoadModel, ReadsTheTextPartOfAMultimodalFolderUnderBothOfItsNames) {
  Folder folder("gemma3_multimodal");
  const auto outer = load_model(folder.path());
  put_language_model_inside(folder);
  const auto inner = load_model(folder.path());
  ASSERT_TRUE(outer.ok()) << outer.error().message;
  ASSERT_TRUE(inner.ok()) << inner.error().message;
  EXPECT_EQ((*outer)->info().context_tokens, 256);
  EXPECT_THAT((*outer)->info().eos_tokens, ElementsAre(1, 106));
  EXPECT_EQ((*inner)->info().weight_bytes, (*outer)->info().weight_bytes);
  const tensor::Checkpoint checkpoint = *tensor::Checkpoint::open(folder.path());
  int64_t text_bytes = 0;
  for (const tensor::FileTensor& tensor : checkpoint.tensors()) {
    const bool text = tensor.name.starts_with("model.language_model.");
    text_bytes += text ? static_cast<int64_t>(tensor.bytes.size()) : 0;
  }
  EXPECT_EQ((*inner)->info().weight_bytes, text_bytes) << "the vision tower is not loaded";
}

TEST(LoadModel, AccountsForEveryTensorOfAMultimodalFolder) {
  for (const std::string name : {"audio_tower.conv.weight", "vision_tower_2.conv.weight",
                                 "language_model.model.layers.9.mlp.up_proj.weight"}) {
    Folder folder("gemma3_multimodal");
    folder.change_tensors([&](auto& tensors) { tensors.insert_or_assign(name, mx::ones({4})); });
    EXPECT_THAT(refusal(folder.path()), HasSubstr(name));
  }
  Folder text_only("gemma3");
  text_only.change_tensors(
      [](auto& tensors) { tensors.insert_or_assign("vision_tower.conv.weight", mx::ones({4})); });
  EXPECT_THAT(refusal(text_only.path()), HasSubstr("vision_tower.conv.weight"));
}

TEST(LoadModel, TakesFromTheReferenceWhatAGemmaConfigLeavesOut) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"vocab_size", "[262208, 48]"},        // the embeddings are [199, 48]
      {"num_attention_heads", "[192, 48]"},  // q_proj has 3 · 24 rows
      {"num_key_value_heads", "to be a multiple of num_key_value_heads, got 3 and 4"},
      {"head_dim", "[768, 48]"},
  };
  for (const auto& [key, expected] : cases) {
    Folder folder("gemma3_multimodal");
    folder.change_config(
        [&](json::object& config) { config.at("text_config").as_object().erase(key); });
    EXPECT_THAT(refusal(folder.path()), HasSubstr(expected)) << key;
  }
  Folder folder("gemma3_multimodal");
  folder.change_config([](json::object& config) {
    config.at("text_config").as_object().erase("max_position_embeddings");
  });
  EXPECT_EQ(load_model(folder.path()).value()->info().context_tokens, 131072);
}

TEST(LoadModel, RefusesAFolderThatIsNotThere) {
  EXPECT_FALSE(load_model(golden("no_such_model")).ok());
}

}  // namespace
}  // namespace pome::models
