// What appends do to the pool's memory while the engine runs: steps overlap, requests join and
// leave, pages are used again.
#include <gtest/gtest.h>

#include <set>

#include "engine/llm_engine.h"
#include "kernels/backend.h"
#include "kvpool/kv_pool.h"
#include "toy_model.h"

namespace pome::engine {
namespace {

constexpr int32_t kContextTokens = 1 << 18;
constexpr int32_t kPoolTokens = 1 << 20;

// Where the two halves of the pool lay in each step.
struct Seen {
  std::set<const void*> k;
  std::set<const void*> v;
  int64_t steps = 0;
  int64_t pool_bytes = 0;  // both halves
};

// The toy, and its pool's addresses. `seen` is the engine thread's until the engine has stopped.
class WatchedToy final : public models::LanguageModel {
 public:
  explicit WatchedToy(Seen* seen) : toy_(std::move(*toy_loader(kContextTokens)())), seen_(seen) {}
  const models::LanguageModelInfo& info() const override { return toy_->info(); }
  kvcache::CacheSpec cache_spec(int32_t page_tokens,
                                const kvcache::KvFormat& format) const override {
    return toy_->cache_spec(page_tokens, format);
  }
  models::StepOutput forward(const layers::Forward& step) const override {
    if (step.pool->pages(0) > kPoolTokens / 100) {  // not the small pool of a rehearsal
      // What the step before returned: submitted, and perhaps still in flight.
      const mx::array& k = step.pool->k_pages(0);
      const mx::array& v = step.pool->v_pages(0);
      seen_->k.insert(k.buffer().ptr());
      seen_->v.insert(v.buffer().ptr());
      seen_->pool_bytes = static_cast<int64_t>(k.nbytes() + v.nbytes());
      ++seen_->steps;
    }
    return toy_->forward(step);
  }

 private:
  std::unique_ptr<models::LanguageModel> toy_;
  Seen* seen_;
};

struct Ran {
  Seen seen;
  int64_t peak_bytes = 0;  // of what MLX allocated, above what it had before
  int64_t planned_pool_bytes = 0;
};

// Four streams at a time, twelve requests, 600 tokens: some hundred steps.
Ran run(const kvcache::KvFormat& format, bool own_kernels) {
  Ran ran;
  mx::clear_cache();
  const size_t before = mx::get_active_memory();
  mx::reset_peak_memory();
  EngineOptions options;
  options.max_running_requests = 4;
  options.max_queued_requests = 16;
  options.max_total_tokens = kPoolTokens;
  options.kv_format = format;
  options.disable_own_kernels = !own_kernels;
  LlmEngine engine(options, [&ran]() -> Result<std::unique_ptr<models::LanguageModel>> {
    return std::unique_ptr<models::LanguageModel>(std::make_unique<WatchedToy>(&ran.seen));
  });
  const Status ready = engine.wait_until_ready(std::chrono::seconds(30));
  EXPECT_TRUE(ready.ok()) << ready.error().message;
  Listener listener(engine);
  for (uint64_t id = 1; id <= 12; ++id) {
    Job job = job_of(id, toy_prompt(30, 1, static_cast<int32_t>(id)), 100);
    job.ignore_eos = true;
    EXPECT_TRUE(engine.submit(job).ok());
  }
  for (uint64_t id = 1; id <= 12; ++id) {
    EXPECT_EQ(listener.until_end(id).tokens.size(), 100U);
  }
  for (const MemoryFigure& figure : engine.details().memory) {
    ran.planned_pool_bytes += figure.item == "KV pool" ? figure.planned_bytes.value_or(0) : 0;
  }
  engine.stop();
  ran.peak_bytes = static_cast<int64_t>(mx::get_peak_memory() - before);
  return ran;
}

class PoolMemory : public testing::Test {
 protected:
  void TearDown() override { kernels::set_own_kernels_enabled(true); }
};

TEST_F(PoolMemory, StaysWhereItIsAndIsNeverCopiedByAppends) {
  using kvcache::KvElement;
  for (const kvcache::KvFormat format : {kvcache::KvFormat{KvElement::bfloat16},
                                         {KvElement::float16},
                                         {KvElement::float32},
                                         {KvElement::int8, 32},
                                         {KvElement::int4, 32}}) {
    if (!kvpool::KvPool::appends_in_place(WatchedToy(nullptr).cache_spec(16, format), format)) {
      ASSERT_FALSE(kernels::computes_on_cpu());
      GTEST_SKIP() << "plain operations append on the default device";
    }
    const Ran ran = run(format, true);
    EXPECT_GE(ran.seen.steps, 300);
    EXPECT_EQ(ran.seen.k.size(), 1U);
    EXPECT_EQ(ran.seen.v.size(), 1U);
    // The pool itself is no memory of MLX's on a CPU. The smallest half, of int4, is 8 MiB.
    EXPECT_GE(ran.seen.pool_bytes, int64_t{16} << 20);
    EXPECT_LT(ran.peak_bytes, int64_t{4} << 20);
    EXPECT_GE(ran.planned_pool_bytes, ran.seen.pool_bytes);
    EXPECT_LT(ran.planned_pool_bytes, ran.seen.pool_bytes + (int64_t{1} << 20));
  }
}

// The fallback: what it may copy is in the plan.
TEST_F(PoolMemory, IsPlannedTwiceWherePlainOperationsAppend) {
  const Ran ran = run({}, false);
  EXPECT_GE(ran.seen.steps, 300);
  EXPECT_GE(ran.planned_pool_bytes, 2 * ran.seen.pool_bytes);
  EXPECT_GE(ran.peak_bytes, ran.seen.pool_bytes);
  EXPECT_LT(ran.peak_bytes, ran.planned_pool_bytes + (int64_t{4} << 20));
}

}  // namespace
}  // namespace pome::engine
