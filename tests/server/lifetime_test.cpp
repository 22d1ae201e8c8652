// Start, drain and stop; interleaving; queues; aborting; the watchdog.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "support/http_client.h"
#include "support/test_server.h"

namespace pome::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

engine::EchoOptions slow_engine(std::chrono::milliseconds delay = 5ms) {
  engine::EchoOptions options;
  options.token_delay = delay;
  return options;
}

std::string stream_request(const std::string& body) {
  return request_bytes("POST", "/v1/completions", body, {});
}

TEST(Lifetime, HealthIsStartingUntilATokenCanBeGenerated) {
  engine::EchoOptions options;
  options.ready_delay = 300ms;
  TestServer server(options);
  const HttpReply starting = request(server.port(), "GET", "/health");
  EXPECT_EQ(starting.status, 503);
  EXPECT_THAT(starting.body, HasSubstr("\"starting\""));
  EXPECT_TRUE(server.wait_for([](const auto& stats) { return stats.ready; }));
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
}

TEST(Lifetime, TheSecondRequestsFirstTokenComesBeforeTheFirstsLast) {
  TestServer server(slow_engine());
  RawConnection first(server.port());
  first.send(stream_request(R"({"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":400})"));
  first.receive_until("data: ", 5s);
  const HttpReply second =
      request(server.port(), "POST", "/v1/completions", R"({"prompt":"b","stream":true})");
  EXPECT_THAT(second.body, HasSubstr("[DONE]"));
  EXPECT_EQ(server.engine().stats().running, 1);
  EXPECT_THAT(first.receive_all(10s), HasSubstr("[DONE]"));
}

TEST(Lifetime, ADrainFinishesWhatRunsRefusesWhatIsNewAndReturns) {
  TestServer server(slow_engine());
  RawConnection running(server.port());
  running.send(stream_request(R"({"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":60})"));
  running.receive_until("data: ", 5s);
  server.server().drain();
  const HttpReply health = request(server.port(), "GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_THAT(health.body, HasSubstr("draining"));
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", R"({"prompt":"x"})").status, 503);
  EXPECT_THAT(running.receive_all(10s), HasSubstr("[DONE]"));
  server.join();
  EXPECT_FALSE(RawConnection(server.port()).connected());
}

TEST(Lifetime, ADrainThatTakesTooLongCancels) {
  server::ServerOptions options;
  options.drain_timeout = 200ms;
  TestServer server(slow_engine(), options);
  RawConnection running(server.port());
  running.send(
      stream_request(R"({"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":8000})"));
  running.receive_until("data: ", 5s);
  server.server().drain();
  EXPECT_THAT(running.receive_all(5s), HasSubstr("\"finish_reason\":\"abort\""));
  server.join();
}

TEST(Lifetime, ADrainWithAnIdleConnectionDoesNotWaitForIt) {
  TestServer server;
  RawConnection idle(server.port());
  idle.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  idle.receive_until("pome serves", 5s);
  server.server().drain();
  server.join();
  idle.receive_all(1s);
  EXPECT_TRUE(idle.at_end());
}

TEST(Lifetime, AStopWithAStepThatHangsStillReturns) {
  engine::EchoOptions options;
  options.script_for = [](const engine::Job&) {
    return engine::EchoScript{.hang_at = 1, .hang = 60s};
  };
  TestServer server(options);
  RawConnection running(server.port());
  running.send(stream_request(R"({"prompt":"abc","stream":true})"));
  running.receive_until("data: ", 5s);
  std::this_thread::sleep_for(100ms);  // the engine is in the step that hangs
  server.server().stop();
  EXPECT_THAT(running.receive_all(10s), HasSubstr("shutting down"));
  server.join();
}

TEST(Lifetime, AStuckEngineTurnsHealthTo503AndFailsItsRequests) {
  engine::EchoOptions options;
  options.script_for = [](const engine::Job& job) {
    engine::EchoScript script;
    if (job.segments.front().tokens.front() == 'h') {
      script.hang_at = 1;
      script.hang = 60s;
    }
    return script;
  };
  server::ServerOptions server_options;
  server_options.serving.watchdog_timeout = 200ms;
  TestServer server(options, server_options);
  auto stuck = std::async(std::launch::async, [&] {
    return request(server.port(), "POST", "/v1/completions", R"({"prompt":"hang"})");
  });
  const HttpReply failed = stuck.get();
  EXPECT_EQ(failed.status, 500);
  EXPECT_THAT(failed.body, HasSubstr("--watchdog-timeout"));
}

TEST(Lifetime, AFullQueueIs429WithRetryAfterAndTheRestComplete) {
  engine::EchoOptions options = slow_engine(20ms);
  options.max_running_requests = 2;
  options.max_queued_requests = 2;
  TestServer server(options);
  std::vector<std::future<HttpReply>> replies;
  for (int i = 0; i < 12; ++i) {
    replies.push_back(std::async(std::launch::async, [&] {
      return request(server.port(), "POST", "/v1/completions",
                     R"({"prompt":"0123456789","max_tokens":10})");
    }));
  }
  int done = 0;
  int refused = 0;
  for (auto& future : replies) {
    const HttpReply reply = future.get();
    done += reply.status == 200 ? 1 : 0;
    refused += reply.status == 429 && !reply.header("Retry-After").empty() ? 1 : 0;
  }
  EXPECT_EQ(done + refused, 12);
  EXPECT_GE(done, 4);
  EXPECT_GE(refused, 1);
}

TEST(Lifetime, AnAbortedRequestSaysSo) {
  TestServer server(slow_engine());
  RawConnection running(server.port());
  running.send(stream_request(
      R"({"rid":"r7","prompt":"a","stream":true,"ignore_eos":true,"max_tokens":8000})"));
  running.receive_until("data: ", 5s);
  EXPECT_THAT(request(server.port(), "POST", "/abort_request", R"({"rid":"r7"})").body,
              HasSubstr("\"aborted\":1"));
  EXPECT_THAT(running.receive_all(5s), HasSubstr("\"finish_reason\":\"abort\""));
  // The client has its last byte a moment before the server forgets the request.
  std::string again;
  const auto end = std::chrono::steady_clock::now() + 5s;
  while (again.find("\"aborted\":0") == std::string::npos &&
         std::chrono::steady_clock::now() < end) {
    again = request(server.port(), "POST", "/abort_request", R"({"rid":"r7"})").body;
  }
  EXPECT_THAT(again, HasSubstr("\"aborted\":0"));
}

TEST(Lifetime, MetricsFollowTheRequests) {
  TestServer server;
  request(server.port(), "POST", "/v1/completions", R"({"prompt":"abc"})");
  const HttpReply metrics = request(server.port(), "GET", "/metrics");
  EXPECT_THAT(metrics.body, HasSubstr("sglang:num_requests_total{model_name=\"echo\"} 1"));
  EXPECT_THAT(metrics.body, HasSubstr("sglang:generation_tokens_total{model_name=\"echo\"} 4"));
}

TEST(Lifetime, AThousandCancelledRequestsLeaveNothingBehind) {
  TestServer server(slow_engine(1ms));
  for (int i = 0; i < 1000; ++i) {
    RawConnection client(server.port());
    client.send(
        stream_request(R"({"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":4000})"));
    if (i % 3 == 0) {
      client.receive_until("data: ", 5s);
    }
  }
  EXPECT_TRUE(server.wait_for([](const auto& s) { return s.running + s.waiting == 0; }));
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", R"({"prompt":"x"})").status, 200);
}

}  // namespace
}  // namespace pome::test
