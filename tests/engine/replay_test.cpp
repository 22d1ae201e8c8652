#include "engine/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <iterator>

#include "engine/llm_engine.h"
#include "support/listener.h"
#include "toy_model.h"

namespace pome::engine {
namespace {

using testing::HasSubstr;

EngineOptions options_of() {
  EngineOptions options;
  options.model_path = "toy";
  options.max_running_requests = 4;
  options.chunked_prefill_size = 16;
  options.page_size = 4;
  options.max_total_tokens = 128;  // some are retracted
  options.schedule_conservativeness = 0.01;
  options.record_steps =
      std::filesystem::temp_directory_path() / ("pome_record_" + std::to_string(getpid()));
  return options;
}

// A crowd with shared prefixes, drawn and penalised answers and one that is cancelled.
void record_a_crowd(const EngineOptions& options, bool with_fault = false) {
  LlmEngine engine(options, toy_loader());
  ASSERT_TRUE(engine.wait_until_ready(std::chrono::seconds(30)).ok());
  Listener listener(engine);
  for (uint64_t id = 1; id <= 12; ++id) {
    Job job = job_of(id, toy_prompt(10 + static_cast<int32_t>(id % 3) * 12, 40), 40);
    job.sampling.temperature = id % 2 == 0 ? 0.0f : 8.0f;
    job.sampling.seed = id;
    job.sampling.logit_bias = {{kToyThrows, -100.0f}, {kToyThrowsLate, -100.0f}};
    job.ignore_eos = true;
    job.sampling.frequency_penalty = id % 3 == 0 ? 0.5f : 0.0f;
    ASSERT_TRUE(engine.submit(job).ok());
  }
  listener.until_tokens(2, 3);
  engine.cancel(RequestId{2});
  if (with_fault) {
    ASSERT_TRUE(engine.submit(job_of(20, {kToyThrows, 1}, 5)).ok());
    listener.until_end(20);
  }
  for (uint64_t id = 1; id <= 12; ++id) {
    listener.until_end(id);
  }
}

// MLX belongs to one thread at a time.
Result<ReplayReport> replayed(const EngineOptions& options) {
  return std::async(std::launch::async,
                    [&] {
                      auto report = replay(options.record_steps, options, toy_loader());
                      mx::synchronize();
                      mx::clear_streams();
                      return report;
                    })
      .get();
}

TEST(Replay, SaysEveryTokenAgain) {
  for (const bool overlap : {true, false}) {
    EngineOptions options = options_of();
    options.disable_overlap_schedule = !overlap;
    record_a_crowd(options);
    const auto report = replayed(options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_GT(report->steps, 50);
    EXPECT_GT(report->tokens, 300);
    EXPECT_EQ(report->different, 0) << report->first_difference;
    EXPECT_EQ(report->ended_by, "");
    std::filesystem::remove(options.record_steps);
  }
}

TEST(Replay, NamesTheFirstTokenThatDiffers) {
  const EngineOptions options = options_of();
  record_a_crowd(options);
  std::ifstream in(options.record_steps);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t at = text.find("]]}", text.find("\"committed\":5"));
  ASSERT_NE(at, std::string::npos);
  text.insert(at, "9");  // another token id
  std::ofstream(options.record_steps) << text;
  const auto report = replayed(options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_GE(report->different, 1);
  EXPECT_THAT(report->first_difference, HasSubstr("step 5, sequence"));
  std::filesystem::remove(options.record_steps);
}

TEST(Replay, EndsBeforeAStepThatFailed) {
  const EngineOptions options = options_of();
  record_a_crowd(options, /*with_fault=*/true);
  const auto report = replayed(options);
  // The model throws again, or the record says that it did.
  if (report.ok()) {
    EXPECT_THAT(report->ended_by, HasSubstr("failed when it was recorded"));
    EXPECT_EQ(report->different, 0);
  } else {
    EXPECT_THAT(report.error().message, HasSubstr("[toy]"));
  }
  std::filesystem::remove(options.record_steps);
}

TEST(Replay, RefusesARecordThatNamesWhatIsNotThere) {
  const EngineOptions options = options_of();
  const std::string pool = "{\"page_tokens\":4,\"group_pages\":[9]}\n";
  const auto row = [](const std::string& token, const std::string& page) {
    return "{\"step\":1,\"rows\":[{\"sequence\":1,\"slot\":0,\"first_position\":0,\"count\":1,"
           "\"input\":{\"tokens\":[" +
           token +
           "]},\"outputs\":[[0,1]],\"samples\":true,\"pages\":"
           "[{\"first_block\":0,\"runs\":[[" +
           page + ",1]]}]}]}\n";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "first line"},
      {row("1", "1"), "first line"},
      {pool + row("64", "1"), "not there"},
      {pool + row("1", "9"), "not there"},
      {pool + row("1", "0"), "not there"},
      {"{\"page_tokens\":4,\"group_pages\":[9,9]}\n", "cache groups"},
  };
  for (const auto& [text, message] : cases) {
    std::ofstream(options.record_steps) << text;
    const auto report = replayed(options);
    ASSERT_FALSE(report.ok()) << text;
    EXPECT_THAT(report.error().message, HasSubstr(message));
  }
  std::filesystem::remove(options.record_steps);
}

}  // namespace
}  // namespace pome::engine
