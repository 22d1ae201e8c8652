#include "telemetry/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pome::telemetry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ServerMetrics tiny_metrics() {
  return ServerMetrics({.model_name = "tiny"});
}

TEST(ServerMetrics, NamesTheModelAndReportsTheEnginesFigures) {
  ServerMetrics metrics = tiny_metrics();
  const std::string text = metrics.text({.running = 2, .kv_tokens_used = 25, .kv_tokens_max = 100});
  EXPECT_THAT(text, HasSubstr("sglang:num_running_reqs{model_name=\"tiny\"} 2"));
  EXPECT_THAT(text, HasSubstr("sglang:token_usage{model_name=\"tiny\"} 0.25"));
}

TEST(ServerMetrics, CountersFollowTheEnginesTotalsAndNeverFall) {
  ServerMetrics metrics = tiny_metrics();
  metrics.text({.steps_total = 7});
  EXPECT_THAT(metrics.text({.steps_total = 9}),
              HasSubstr("pome:steps_total{model_name=\"tiny\"} 9"));
  EXPECT_THAT(metrics.text({.steps_total = 1}),
              HasSubstr("pome:steps_total{model_name=\"tiny\"} 9"));
}

TEST(ServerMetrics, TheHitRateIsThePartThatWasFoundOfAllPromptTokens) {
  ServerMetrics metrics = tiny_metrics();
  EXPECT_THAT(metrics.text({}), HasSubstr("sglang:cache_hit_rate{model_name=\"tiny\"} 0\n"));
  const std::string text =
      metrics.text({.computed_prompt_tokens_total = 30, .cached_prompt_tokens_total = 10});
  EXPECT_THAT(text, HasSubstr("sglang:cache_hit_rate{model_name=\"tiny\"} 0.25"));
  EXPECT_THAT(text, HasSubstr("sglang:realtime_tokens_total{mode=\"prefill_cache\",model_name="
                              "\"tiny\"} 10"));
}

TEST(ServerMetrics, AnEndedRequestIsSeenInCountersAndHistograms) {
  ServerMetrics metrics = tiny_metrics();
  metrics.observe_request({.seconds = 0.12,
                           .seconds_to_first_token = 0.02,
                           .prompt_tokens = 40,
                           .cached_tokens = 32,
                           .completion_tokens = 11});
  metrics.observe_tokens(0.02, 2);
  const std::string text = metrics.text({});
  EXPECT_THAT(text, HasSubstr("sglang:prompt_tokens_total{model_name=\"tiny\"} 40"));
  EXPECT_THAT(text, HasSubstr("sglang:cached_tokens_total{model_name=\"tiny\"} 32"));
  EXPECT_THAT(text, HasSubstr("sglang:generation_tokens_total{model_name=\"tiny\"} 11"));
  EXPECT_THAT(text, HasSubstr("sglang:num_requests_total{model_name=\"tiny\"} 1"));
  EXPECT_THAT(text, HasSubstr("sglang:num_aborted_requests_total{model_name=\"tiny\"} 0"));
  EXPECT_THAT(text, HasSubstr("sglang:time_to_first_token_seconds_count{model_name=\"tiny\"} 1"));
  const std::string between = "sglang:inter_token_latency_seconds_bucket{model_name=\"tiny\",le=";
  EXPECT_THAT(text, HasSubstr(between + "\"0.008\"} 0"));
  EXPECT_THAT(text, HasSubstr(between + "\"0.01\"} 2"));
}

TEST(ServerMetrics, WhoGaveUpIsAbortedAndWhatBrokeIsFailed) {
  ServerMetrics metrics = tiny_metrics();
  metrics.observe_request({.end = RequestFigures::End::aborted, .seconds = 1.0});
  metrics.observe_request({.end = RequestFigures::End::failed, .seconds = 1.0});
  const std::string text = metrics.text({});
  EXPECT_THAT(text, HasSubstr("sglang:num_requests_total{model_name=\"tiny\"} 2"));
  EXPECT_THAT(text, HasSubstr("sglang:num_aborted_requests_total{model_name=\"tiny\"} 1"));
  EXPECT_THAT(text, HasSubstr("pome:failed_requests_total{model_name=\"tiny\"} 1"));
  EXPECT_THAT(text, HasSubstr("sglang:time_to_first_token_seconds_count{model_name=\"tiny\"} 0"));
}

TEST(ServerMetrics, MemoryHasTheItemsThatAreKnown) {
  ServerMetrics metrics = tiny_metrics();
  const std::string text =
      metrics.text({.memory = {{.item = "weights", .planned_bytes = 5000},
                               {.item = "cache", .planned_bytes = 7, .measured_bytes = 6}}});
  EXPECT_THAT(text,
              HasSubstr("pome:memory_planned_bytes{item=\"weights\",model_name=\"tiny\"} 5000"));
  EXPECT_THAT(text, HasSubstr("pome:memory_measured_bytes{item=\"cache\",model_name=\"tiny\"} 6"));
  EXPECT_THAT(text, Not(HasSubstr("pome:memory_measured_bytes{item=\"weights\"")));
}

TEST(ServerMetrics, BoundsAndLengthsAreAsAskedFor) {
  ServerMetrics metrics(
      {.model_name = "tiny", .time_to_first_token_bounds = {0.5, 1.5}, .tokens_histograms = true});
  metrics.observe_request({.seconds = 2.0, .seconds_to_first_token = 1.0, .prompt_tokens = 20});
  const std::string text = metrics.text({});
  EXPECT_THAT(text,
              HasSubstr("time_to_first_token_seconds_bucket{model_name=\"tiny\",le=\"1.5\"} 1"));
  EXPECT_THAT(text,
              Not(HasSubstr("time_to_first_token_seconds_bucket{model_name=\"tiny\",le=\"1\"}")));
  EXPECT_THAT(text,
              HasSubstr("sglang:prompt_tokens_histogram_bucket{model_name=\"tiny\",le=\"30\"} 1"));
}

TEST(ServerMetrics, RepliesAreCountedByStatusAndKernelsByVariant) {
  ServerMetrics metrics = tiny_metrics();
  metrics.count_reply(200);
  metrics.count_reply(404);
  metrics.count_reply(404);
  const std::string text = metrics.text({.kernels = {{"matmul/avx512", 12}}});
  EXPECT_THAT(text, HasSubstr("pome:http_replies_total{model_name=\"tiny\",status=\"404\"} 2"));
  EXPECT_THAT(
      text, HasSubstr("pome:kernel_runs_total{model_name=\"tiny\",variant=\"matmul/avx512\"} 12"));
}

TEST(ServerMetrics, AModelsNameMayHoldWhatItLikes) {
  ServerMetrics metrics({.model_name = "a\"b\\c\nd"});
  EXPECT_THAT(metrics.text({}), HasSubstr("{model_name=\"a\\\"b\\\\c\\nd\"}"));
}

}  // namespace
}  // namespace pome::telemetry
