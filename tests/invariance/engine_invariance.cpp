#include "engine_invariance.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace pome::engine {

std::string name_of(const testing::TestParamInfo<Setting>& info) {
  const kvcache::KvFormat& format = info.param.kv_format;
  return std::string(info.param.model) + (info.param.own_kernels ? "_own" : "_plain") +
         (format.coded() ? "_int" + std::to_string(format.bits()) : "");
}

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.model << (setting.own_kernels ? "" : " without own kernels");
}

namespace {

// The tiny models know 256 positions; the kernels split a row's keys beyond that many. A copy that
// knows more takes part in both.
constexpr int32_t kContextTokens = 1024;

std::filesystem::path with_longer_context(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  const fs::path copy = fs::temp_directory_path() /
                        ("pome_invariance_" + std::to_string(getpid())) / folder.filename();
  if (fs::exists(copy)) {
    return copy;
  }
  fs::create_directories(copy);
  for (const auto& entry : fs::directory_iterator(folder)) {
    fs::copy_file(entry.path(), copy / entry.path().filename());
  }
  std::ifstream in(folder / "config.json");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  json::value config = parse_json(text).value();
  config.as_object()["max_position_embeddings"] = kContextTokens;
  std::ofstream(copy / "config.json") << to_string(config);
  return copy;
}

}  // namespace

std::filesystem::path model_path(const std::string& model) {
  const std::filesystem::path folder =
      std::filesystem::path(POME_SOURCE_DIR) / "tests/golden/llm" / model;
  return std::filesystem::exists(folder / "config.json") ? with_longer_context(folder)
                                                         : folder / "model.gguf";
}

namespace {

class RemoveCopies : public testing::Environment {
 public:
  void TearDown() override {
    std::filesystem::remove_all(std::filesystem::temp_directory_path() /
                                ("pome_invariance_" + std::to_string(getpid())));
  }
};
const testing::Environment* const kRemoveCopies =
    testing::AddGlobalTestEnvironment(new RemoveCopies);

// Lengths around pages (16), key blocks (32), key splits (256) and the smallest window (11).
constexpr int32_t kLengths[] = {1, 11, 12, 15, 16, 17, 31, 33, 48, 64, 65, 300};

}  // namespace

std::vector<Job> jobs_of(const ModelInfo& model) {
  std::mt19937 random(7);
  std::vector<Job> jobs;
  for (const int32_t length : kLengths) {
    if (length + 20 > model.context_tokens) {
      continue;
    }
    std::vector<Token> prompt;
    for (int32_t i = 0; i < length; ++i) {
      prompt.push_back(static_cast<Token>(random() % static_cast<uint32_t>(model.vocab_tokens)));
    }
    Job job = job_of(jobs.size() + 1, prompt, 8 + length % 7);
    job.ignore_eos = true;
    job.top_logprobs = 4;
    if (jobs.size() % 3 == 1) {  // a third of them draws, a third is penalised as well
      job.sampling.temperature = 4.0f;
      job.sampling.seed = jobs.size();
    } else if (jobs.size() % 3 == 2) {
      job.sampling.temperature = 3.0f;
      job.sampling.top_k = 40;
      job.sampling.top_p = 0.9f;
      job.sampling.seed = 1000 + jobs.size();
      job.sampling.repetition_penalty = 1.2f;
      job.sampling.frequency_penalty = 0.5f;
    }
    jobs.push_back(job);
  }
  return jobs;
}

}  // namespace pome::engine
