#include "engine_invariance.h"
#include "kernels/backend.h"

// Prefix hits, retraction and overlap: what the engine may do behind a request's back.
namespace pome::engine {
namespace {

class CacheInvariance : public EngineInvariance {
 protected:
  // The job's answer in a cache that holds what `before` left there and nothing else.
  void answer_after(LlmEngine& engine, Listener& listener, std::vector<Token> before,
                    const Job& job, const Heard*& heard) {
    const std::string name = std::to_string(next_id_);
    Job first = job_of(++next_id_, std::move(before), 1);
    first.cache_namespace = name;
    ASSERT_TRUE(engine.submit(first).ok());
    listener.until_end(next_id_);
    Job again = job;
    again.request = RequestId{++next_id_};
    again.sequence = SequenceId{next_id_};
    again.cache_namespace = name;
    ASSERT_TRUE(engine.submit(again).ok());
    heard = &listener.until_end(next_id_);
  }

  uint64_t next_id_ = 1000;
};

TEST_P(CacheInvariance, OverlappedOrNot) {
  EngineOptions one_by_one = options();
  one_by_one.disable_overlap_schedule = true;
  expect_all_same(together(one_by_one));
}

TEST_P(CacheInvariance, WithAndWithoutThePrefixCache) {
  EngineOptions cold = options();
  cold.disable_radix_cache = true;
  expect_all_same(together(cold));
}

TEST_P(CacheInvariance, AfterAPrefixHitAtEveryLength) {
  EngineOptions paged = options();
  for (const int32_t page : {1, 16}) {
    paged.page_size = page;
    const auto engine = started(paged);
    Listener listener(*engine);
    for (const Job& job : jobs_of(engine->model())) {
      const std::vector<Token>& prompt = job.segments[0].tokens;
      const auto length = static_cast<int32_t>(prompt.size());
      if (length > 33) {
        continue;
      }
      const int32_t stride = page == 1 && length > 20 ? 6 : page;
      for (int32_t shared = 1; shared <= length; shared += stride) {
        SCOPED_TRACE("pages of " + std::to_string(page) + ", " + std::to_string(shared) + " of " +
                     std::to_string(length) + " tokens shared");
        const std::vector<Token> before(prompt.begin(), prompt.begin() + shared);
        const Heard* heard = nullptr;
        ASSERT_NO_FATAL_FAILURE(answer_after(*engine, listener, before, job, heard));
        EXPECT_EQ(heard->last.cached_tokens, std::min(shared, length - 1) / page * page);
        expect_same(alone().at(static_cast<uint64_t>(job.sequence)), *heard, next_id_);
      }
    }
  }
}

// The cache holds a prompt that leaves this one at every place inside its pages.
TEST_P(CacheInvariance, AfterAHitThatEndsInsideAPage) {
  const EngineOptions paged = options();
  const int32_t page = paged.page_size;
  const auto engine = started(paged);
  Listener listener(*engine);
  for (const Job& job : jobs_of(engine->model())) {
    const std::vector<Token>& prompt = job.segments[0].tokens;
    const auto length = static_cast<int32_t>(prompt.size());
    for (int32_t shared = 1; length <= 33 && shared <= length; shared += 5) {
      SCOPED_TRACE(std::to_string(shared) + " of " + std::to_string(length) + " tokens shared");
      std::vector<Token> other(prompt.begin(), prompt.begin() + shared);
      while (other.size() % static_cast<size_t>(page) != 0) {
        const auto place = other.size() < prompt.size() ? other.size() : prompt.size() - 1;
        other.push_back((prompt[place] + 1) % engine->model().vocab_tokens);
      }
      const Heard* heard = nullptr;
      ASSERT_NO_FATAL_FAILURE(answer_after(*engine, listener, std::move(other), job, heard));
      const int32_t whole = std::min(shared, length - 1) / page * page;
      EXPECT_EQ(heard->last.cached_tokens,
                kernels::own_cpu_kernels() ? std::min(shared, length - 1) : whole);
      expect_same(alone().at(static_cast<uint64_t>(job.sequence)), *heard, next_id_);
    }
  }
}

// With longer answers, in a pool that holds two or three of them at once.
TEST_P(CacheInvariance, RetractedOrNot) {
  const auto longer = [](const ModelInfo& model) {
    std::vector<Job> jobs = jobs_of(model);
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
  for (const bool overlap : {true, false}) {
    tight.disable_overlap_schedule = !overlap;
    const auto engine = started(tight);
    Listener listener(*engine);
    const std::vector<Job> jobs = longer(engine->model());
    for (const Job& job : jobs) {
      ASSERT_TRUE(engine->submit(job).ok());
    }
    for (const Job& job : jobs) {
      const auto id = static_cast<uint64_t>(job.sequence);
      expect_same(roomy.at(id), listener.until_end(id), id);
    }
    EXPECT_GT(engine->stats().retracted_total, 0);
    EXPECT_EQ(engine->stats().kv_tokens_used, 0);
  }
}

TEST_P(CacheInvariance, InACrowdOfThirtyTwo) {
  EngineOptions crowded = options();
  crowded.max_running_requests = 32;
  const auto engine = started(crowded);
  Listener listener(*engine);
  std::vector<std::pair<uint64_t, uint64_t>> twins;  // their ids, and those of the originals
  uint64_t next_id = 1000;
  for (int copy = 0; copy < 3; ++copy) {
    for (const Job& job : jobs_of(engine->model())) {
      Job twin = job;
      twin.request = RequestId{++next_id};
      twin.sequence = SequenceId{next_id};
      ASSERT_TRUE(engine->submit(twin).ok());
      twins.emplace_back(next_id, static_cast<uint64_t>(job.sequence));
    }
  }
  for (const auto& [twin, original] : twins) {
    expect_same(alone().at(original), listener.until_end(twin), twin);
  }
}

constexpr Setting kSettings[] = {
    {"llama", true},
    {"qwen2", true},
    {"qwen3", true},
    {"gemma3", true},
    {"qwen3_mlx", true},
    {"llama_blocks", true},
    {"llama", false},
    {"gemma3", false},
    {"gemma3", true, {kvcache::KvElement::int8, 32}},
    {"llama", true, {kvcache::KvElement::int4}},
};
INSTANTIATE_TEST_SUITE_P(TinyModels, CacheInvariance, testing::ValuesIn(kSettings), name_of);

}  // namespace
}  // namespace pome::engine
