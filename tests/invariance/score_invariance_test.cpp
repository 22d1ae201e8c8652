#include "engine_invariance.h"

// The scores of a prompt: whole or in chunks, alone or in a crowd, cold or behind a prefix hit, and
// the same as a token's log probability when it is said.
namespace pome::engine {
namespace {

class ScoreInvariance : public EngineInvariance {
 protected:
  // The jobs of several tokens, scored from a position that differs from job to job.
  static std::vector<Job> scored_jobs(const ModelInfo& model) {
    std::vector<Job> jobs = jobs_of(model);
    std::erase_if(jobs, [](const Job& job) { return job.segments[0].tokens.size() < 11; });
    for (size_t i = 0; i < jobs.size(); ++i) {
      jobs[i].score_from = static_cast<int32_t>(i * i % 11);
      jobs[i].logprob_tokens = {5, 1};
    }
    return jobs;
  }

  void expect_same_scores(const Heard& expected, const Heard& got, uint64_t id) {
    SCOPED_TRACE("sequence " + std::to_string(id));
    ASSERT_EQ(expected.scores_begin, got.scores_begin);
    ASSERT_EQ(expected.scores.size(), got.scores.size());
    for (size_t i = 0; i < expected.scores.size(); ++i) {
      const TokenOutput& a = expected.scores[i];
      const TokenOutput& b = got.scores[i];
      ASSERT_EQ(a.token, b.token);
      ASSERT_TRUE(same(a.logprob, b.logprob)) << i << ": " << a.logprob << " and " << b.logprob;
      ASSERT_EQ(a.top.size(), b.top.size());
      for (size_t rank = 0; rank < a.top.size(); ++rank) {
        ASSERT_TRUE(same(a.top[rank].logprob, b.top[rank].logprob)) << i << " rank " << rank;
      }
      ASSERT_EQ(b.requested.size(), 2U);
      for (size_t j = 0; j < 2; ++j) {
        ASSERT_TRUE(same(a.requested[j].logprob, b.requested[j].logprob)) << i;
      }
    }
  }

  const Answers& scored_alone() {
    static std::map<std::string, Answers> known;
    Answers& answers = known[name_of({GetParam(), 0})];
    if (answers.empty()) {
      EngineOptions cold = options();
      cold.disable_radix_cache = true;
      const auto engine = started(cold);
      Listener listener(*engine);
      for (const Job& job : scored_jobs(engine->model())) {
        const auto id = static_cast<uint64_t>(job.sequence);
        EXPECT_TRUE(engine->submit(job).ok());
        answers[id] = listener.until_end(id);
      }
    }
    return answers;
  }

  void expect_all_same_scores(const Answers& got) {
    ASSERT_FALSE(got.empty());
    for (const auto& [id, heard] : got) {
      expect_same_scores(scored_alone().at(id), heard, id);
      expect_same(alone().at(id), heard, id);  // scores change nothing of the answer
    }
  }
};

TEST_P(ScoreInvariance, InACrowdAndInChunksOfEverySize) {
  for (const int32_t chunk : {1, 7, 64, 512}) {
    SCOPED_TRACE("chunks of " + std::to_string(chunk));
    EngineOptions chunked = options();
    chunked.chunked_prefill_size = chunk;
    chunked.max_running_requests = std::min(chunk, 16);
    expect_all_same_scores(together(chunked, scored_jobs));
  }
}

TEST_P(ScoreInvariance, OverlappedOrNot) {
  EngineOptions one_by_one = options();
  one_by_one.disable_overlap_schedule = true;
  expect_all_same_scores(together(one_by_one, scored_jobs));
}

TEST_P(ScoreInvariance, ColdAndBehindAPrefixHit) {
  const auto engine = started(options());
  Listener listener(*engine);
  for (const Job& job : scored_jobs(engine->model())) {
    for (const int32_t from : {0, 9, 17, 40}) {
      const auto length = static_cast<int32_t>(job.segments[0].tokens.size());
      if (from >= length) {
        continue;
      }
      // The whole prompt is in the cache from its first run on.
      Job again = job;
      again.score_from = from;
      const uint64_t id = static_cast<uint64_t>(job.sequence) * 100 + static_cast<uint64_t>(from);
      again.request = RequestId{id};
      again.sequence = SequenceId{id};
      ASSERT_TRUE(engine->submit(again).ok());
      const Heard& heard = listener.until_end(id);
      EXPECT_LE(heard.last.cached_tokens, std::max(from - 1, 0));
      Heard expected = scored_alone().at(static_cast<uint64_t>(job.sequence));
      const int32_t first = std::max(from, 1);
      if (first < expected.scores_begin) {
        continue;  // it was not scored that early when it was alone
      }
      expected.scores.erase(expected.scores.begin(),
                            expected.scores.begin() + (first - expected.scores_begin));
      expected.scores_begin = first;
      expect_same_scores(expected, heard, id);
    }
  }
}

// In a pool that holds two or three sequences at once: what was scored before a retraction stands.
TEST_P(ScoreInvariance, RetractedOrNot) {
  const auto longer = [](const ModelInfo& model) {
    std::vector<Job> jobs = scored_jobs(model);
    std::erase_if(jobs, [](const Job& job) { return job.segments[0].tokens.size() > 70; });
    for (Job& job : jobs) {
      job.max_tokens = 40;
    }
    return jobs;
  };
  const Answers roomy = together(options(), longer);
  EngineOptions tight = options();
  tight.page_size = 4;
  tight.context_length = 128;
  tight.max_total_tokens = 160;
  tight.schedule_conservativeness = 0.01;
  tight.chunked_prefill_size = 16;
  const auto engine = started(tight);
  Listener listener(*engine);
  const std::vector<Job> jobs = longer(engine->model());
  for (const Job& job : jobs) {
    ASSERT_TRUE(engine->submit(job).ok());
  }
  for (const Job& job : jobs) {
    const auto id = static_cast<uint64_t>(job.sequence);
    const Heard& heard = listener.until_end(id);
    expect_same(roomy.at(id), heard, id);
    expect_same_scores(roomy.at(id), heard, id);
  }
  EXPECT_GT(engine->stats().retracted_total, 0);
}

// A prompt that goes on with what was said has the same log probabilities there.
TEST_P(ScoreInvariance, AreTheLogprobsOfTheTokensWhenTheyWereSaid) {
  const auto engine = started(options());
  Listener listener(*engine);
  for (const Job& job : jobs_of(engine->model())) {
    const Heard& said = alone().at(static_cast<uint64_t>(job.sequence));
    Job whole = job;
    const uint64_t id = static_cast<uint64_t>(job.sequence) + 500;
    whole.request = RequestId{id};
    whole.sequence = SequenceId{id};
    std::vector<Token>& prompt = whole.segments[0].tokens;
    whole.score_from = static_cast<int32_t>(prompt.size());
    prompt.insert(prompt.end(), said.tokens.begin(), said.tokens.end());
    whole.max_tokens = 0;
    ASSERT_TRUE(engine->submit(whole).ok());
    const Heard& heard = listener.until_end(id);
    ASSERT_EQ(heard.scores.size(), said.outputs.size());
    for (size_t i = 0; i < heard.scores.size(); ++i) {
      EXPECT_EQ(heard.scores[i].token, said.tokens[i]);
      EXPECT_TRUE(same(heard.scores[i].logprob, said.outputs[i].logprob))
          << heard.scores[i].logprob << " and " << said.outputs[i].logprob;
    }
  }
}

constexpr Setting kSettings[] = {
    {"llama", true}, {"qwen3", true}, {"gemma3", true}, {"qwen3_mlx", true}, {"gemma3", false},
};
INSTANTIATE_TEST_SUITE_P(TinyModels, ScoreInvariance, testing::ValuesIn(kSettings), name_of);

}  // namespace
}  // namespace pome::engine
