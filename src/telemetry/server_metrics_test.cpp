#include "telemetry/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pome::telemetry {
namespace {

using ::testing::HasSubstr;

TEST(ServerMetrics, NamesTheModelAndReportsTheEnginesFigures) {
  ServerMetrics metrics("tiny");
  const std::string text = metrics.text({.running = 2, .kv_tokens_used = 25, .kv_tokens_max = 100});
  EXPECT_THAT(text, HasSubstr("sglang:num_running_reqs{model_name=\"tiny\"} 2"));
  EXPECT_THAT(text, HasSubstr("sglang:token_usage{model_name=\"tiny\"} 0.25"));
}

TEST(ServerMetrics, CountersFollowTheEnginesTotalsAndNeverFall) {
  ServerMetrics metrics("tiny");
  metrics.text({.generated_tokens_total = 7});
  EXPECT_THAT(metrics.text({.generated_tokens_total = 9}),
              HasSubstr("sglang:generation_tokens_total{model_name=\"tiny\"} 9"));
  EXPECT_THAT(metrics.text({.generated_tokens_total = 1}),
              HasSubstr("sglang:generation_tokens_total{model_name=\"tiny\"} 9"));
}

TEST(ServerMetrics, AFinishedRequestIsSeenInEveryHistogram) {
  ServerMetrics metrics("tiny");
  metrics.observe_request(
      {.seconds_to_first_token = 0.02, .seconds = 0.12, .completion_tokens = 11});
  const std::string text = metrics.text({});
  EXPECT_THAT(text, HasSubstr("sglang:time_to_first_token_seconds_count{model_name=\"tiny\"} 1"));
  EXPECT_THAT(text, HasSubstr("sglang:inter_token_latency_seconds_bucket{model_name=\"tiny\",le="
                              "\"0.005\"} 0"));
  EXPECT_THAT(text, HasSubstr("sglang:inter_token_latency_seconds_bucket{model_name=\"tiny\",le="
                              "\"0.02\"} 1"));
}

TEST(ServerMetrics, RepliesAreCountedByStatus) {
  ServerMetrics metrics("tiny");
  metrics.count_reply(200);
  metrics.count_reply(404);
  metrics.count_reply(404);
  EXPECT_THAT(metrics.text({}), HasSubstr("pome:http_replies_total{status=\"404\"} 2"));
}

}  // namespace
}  // namespace pome::telemetry
