#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/llm_engine.h"
#include "kernels/backend.h"
#include "support/listener.h"

// A request's tokens and log probabilities, alone and in every other circumstance.
namespace pome::engine {

struct Setting {
  const char* model;  // a folder of tests/golden/llm
  bool own_kernels;
  kvcache::KvFormat kv_format = {};
};
std::string name_of(const testing::TestParamInfo<Setting>& info);
void PrintTo(const Setting& setting, std::ostream* out);

// Of a model in tests/golden/llm, with a longer context where it has a config.
std::filesystem::path model_path(const std::string& model);

using Answers = std::map<uint64_t, Heard>;

// Requests of many lengths; a third of them draws, a third is penalised as well.
std::vector<Job> jobs_of(const ModelInfo& model);

class EngineInvariance : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (GetParam().own_kernels && !kernels::computes_on_cpu()) {
      GTEST_SKIP() << "the default device has no own kernels";
    }
  }

  EngineOptions options() const {
    EngineOptions options;
    options.model_path = model_path(GetParam().model);
    options.disable_own_kernels = !GetParam().own_kernels;
    options.kv_format = GetParam().kv_format;
    options.max_running_requests = 16;
    options.chunked_prefill_size = 512;
    options.check_every_step = true;
    return options;
  }

  std::unique_ptr<LlmEngine> started(const EngineOptions& options) {
    auto engine = std::make_unique<LlmEngine>(options);
    const Status ready = engine->wait_until_ready(std::chrono::seconds(60));
    EXPECT_TRUE(ready.ok()) << ready.error().message;
    return engine;
  }

  // Each job when it has the engine for itself.
  const Answers& alone() {
    static std::map<std::string, Answers> known;
    Answers& answers = known[name_of({GetParam(), 0})];
    if (answers.empty()) {
      const auto engine = started(options());
      Listener listener(*engine);
      for (const Job& job : jobs_of(engine->model())) {
        const auto id = static_cast<uint64_t>(job.sequence);
        EXPECT_TRUE(engine->submit(job).ok());
        answers[id] = listener.until_end(id);
      }
    }
    return answers;
  }

  Answers together(const EngineOptions& options,
                   std::vector<Job> (*jobs_for)(const ModelInfo&) = jobs_of) {
    const auto engine = started(options);
    Listener listener(*engine);
    Answers answers;
    const std::vector<Job> jobs = jobs_for(engine->model());
    for (const Job& job : jobs) {
      EXPECT_TRUE(engine->submit(job).ok());
    }
    for (const Job& job : jobs) {
      const auto id = static_cast<uint64_t>(job.sequence);
      answers[id] = listener.until_end(id);
    }
    return answers;
  }

  // Of log probabilities from plain operations. A number between two codes of the cache may take
  // either, by the last digits.
  float tolerance() const { return GetParam().kv_format.coded() ? 1e-2f : 2e-3f; }

  bool same(float a, float b) const {
    if (GetParam().own_kernels) {
      return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
    }
    return std::abs(a - b) < tolerance();
  }

  // Plain products differ in the last digits, so a near tie may fall the other way; from there on
  // the texts are different ones and only the way up to it is compared.
  bool near_tie(const TokenOutput& a) const {
    return !GetParam().own_kernels && a.top.size() >= 2 &&
           a.top[0].logprob - a.top[1].logprob < std::max(1e-2f, 2 * tolerance());
  }

  void expect_same(const Heard& expected, const Heard& got, uint64_t id) {
    SCOPED_TRACE("sequence " + std::to_string(id));
    ASSERT_FALSE(expected.outputs.empty());
    ASSERT_EQ(got.last.finish, FinishReason::length) << got.last.error.message;
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      const TokenOutput& a = expected.outputs[i];
      const TokenOutput& b = got.outputs.at(i);
      if (a.token != b.token && near_tie(a)) {
        return;
      }
      ASSERT_EQ(a.token, b.token) << "output " << i;
      ASSERT_TRUE(same(a.logprob, b.logprob))
          << "output " << i << ": " << a.logprob << " and " << b.logprob;
      ASSERT_EQ(a.top.size(), b.top.size());
      for (size_t rank = 0; rank < a.top.size(); ++rank) {
        ASSERT_TRUE(same(a.top[rank].logprob, b.top[rank].logprob)) << i << " rank " << rank;
      }
    }
    ASSERT_EQ(expected.outputs.size(), got.outputs.size());
  }

  void expect_all_same(const Answers& got) {
    for (const auto& [id, heard] : got) {
      expect_same(alone().at(id), heard, id);
    }
  }
};

}  // namespace pome::engine
