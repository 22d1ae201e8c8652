// Real model files, where they are in the cache: every tensor loads, memory stays about the file's
// size, and the pages of the file do not stay behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "quant/quantized_weight.h"
#include "tensor/checkpoint/hf_config.h"

namespace pome {
namespace {

struct RealFile {
  std::string name;
  std::string architecture;
  int32_t layers;
  std::vector<int32_t> eos_token_ids;
};

const std::vector<RealFile> kFiles = {
    {"SmolLM2-135M-Instruct.Q4_1.gguf", "llama", 30, {0, 2}},
    {"gemma-3-270m-q4_k_m.gguf", "gemma3", 18, {1, 106}},
};

std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("POME_CACHE")) {
    return cache;
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "." : home) / ".cache" / "pome";
}

// Resident pages that belong to files, and to nobody's file.
struct Resident {
  size_t file_bytes = 0;
  size_t own_bytes = 0;
};

Resident resident() {
  size_t total = 0, shared = 0, ignored = 0;
  std::ifstream("/proc/self/statm") >> ignored >> total >> shared;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return {shared * page, (total - shared) * page};
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
    std::error_code ignored;
    if (std::filesystem::exists(it->path() / name, ignored)) {
      return it->path() / name;
    }
  }
  return {};
}

class RealFiles : public ::testing::TestWithParam<RealFile> {
 protected:
  void SetUp() override {
    path_ = find_file(GetParam().name);
    if (path_.empty()) {
      GTEST_SKIP() << GetParam().name << " is not in " << cache_folder().string();
    }
  }

  std::filesystem::path path_;
};

TEST_P(RealFiles, ConfigAndEndOfTurnIdsAreRead) {
  const auto checkpoint = tensor::Checkpoint::open(path_);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const tensor::HfConfig config(*checkpoint);
  EXPECT_EQ(config.model_type(), GetParam().architecture);
  EXPECT_EQ(config.get_int("num_hidden_layers"), GetParam().layers);
  const auto defaults = tensor::read_generation_defaults(*checkpoint);
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(defaults->eos_token_ids, GetParam().eos_token_ids);
}

TEST_P(RealFiles, EveryTensorLoadsAndTheFilesPagesDoNotStay) {
  const Resident before = resident();
  const auto checkpoint = tensor::Checkpoint::open(path_);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const Resident opened = resident();
  const tensor::Weights w(*checkpoint, {}, mx::float32);
  std::vector<quant::QuantizedWeight> matrices;
  std::vector<mx::array> dense;
  size_t packed_bytes = 0;
  for (const tensor::FileTensor& tensor : checkpoint->tensors()) {
    if (!tensor::is_block(tensor.encoding)) {
      dense.push_back(w.get(tensor.name));
      continue;
    }
    const std::string module = tensor.name.substr(0, tensor.name.rfind(".weight"));
    matrices.push_back(quant::load_quantized(quant::QuantizedModule{w / module}));
    packed_bytes += matrices.back().bytes();
  }
  EXPECT_TRUE(w.check_all_read());
  EXPECT_LE(packed_bytes, checkpoint->file_bytes() * 23 / 20);
  constexpr size_t kMiB = size_t{1} << 20;
  if (std::filesystem::exists("/proc/self/statm")) {
    const Resident loaded = resident();
    EXPECT_LE(loaded.own_bytes, opened.own_bytes + packed_bytes + 16 * kMiB);
    EXPECT_LE(loaded.file_bytes, before.file_bytes + 32 * kMiB);
  }
}

INSTANTIATE_TEST_SUITE_P(Cache, RealFiles, ::testing::ValuesIn(kFiles),
                         [](const auto& param) { return param.param.architecture; });

}  // namespace
}  // namespace pome
