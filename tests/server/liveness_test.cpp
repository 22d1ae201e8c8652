// Health under load and when the engine is stuck, refusals that say when to come back, aborting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "base/json.h"
#include "support/http_client.h"
#include "support/test_server.h"

namespace pome::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr const char* kEndless =
    R"({"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":8000})";

engine::EchoOptions full_engine() {
  engine::EchoOptions options;
  options.token_delay = 5ms;
  options.max_running_requests = 1;
  options.max_queued_requests = 1;
  return options;
}

// Whoever asks for 'h…' hangs the engine with the second token.
std::optional<engine::EchoScript> hang_on_h(const engine::Job& job) {
  engine::EchoScript script;
  if (job.segments.front().tokens.front() == 'h') {
    script.hang_at = 1;
    script.hang = 60s;
  }
  return script;
}

std::unique_ptr<RawConnection> stream(TestServer& server, const std::string& body) {
  auto client = std::make_unique<RawConnection>(server.port());
  client->send(request_bytes("POST", "/v1/completions", body, {}));
  return client;
}

HttpReply health_generate(TestServer& server) {
  return request(server.port(), "GET", "/health_generate");
}

TEST(HealthGenerate, AnIdleEngineGeneratesATokenThatIsNoTraffic) {
  TestServer server;
  EXPECT_EQ(health_generate(server).status, 200);
  EXPECT_EQ(server.engine().stats().generated_tokens_total, 1);
  EXPECT_THAT(request(server.port(), "GET", "/metrics").body,
              HasSubstr("sglang:num_requests_total{model_name=\"echo\"} 0"));
}

TEST(HealthGenerate, AFullQueueDoesNotHideALivingEngine) {
  TestServer server(full_engine());
  const auto running = stream(server, kEndless);
  running->receive_until("data: ", 5s);
  const auto waiting = stream(server, kEndless);
  ASSERT_TRUE(server.wait_for([](const auto& s) { return s.waiting == 1; }));
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", kEndless).status, 429);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(health_generate(server).status, 200);
  }
  EXPECT_EQ(server.engine().stats().running + server.engine().stats().waiting, 2);
}

TEST(HealthGenerate, AnEngineThatHangsIs503InTimeWithAFullQueueToo) {
  engine::EchoOptions engine_options = full_engine();
  engine_options.script_for = hang_on_h;
  server::ServerOptions options;
  options.serving.health_generate_timeout = 200ms;
  TestServer server(engine_options, options);
  const auto stuck = stream(server, R"({"prompt":"hang","stream":true})");
  stuck->receive_until("data: ", 5s);
  ASSERT_TRUE(server.wait_for([](const auto& s) { return s.last_step_age > 20ms; }));
  const HttpReply reply = health_generate(server);
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("no progress in 200 ms"));
  EXPECT_FALSE(reply.header("Retry-After").empty());
}

TEST(HealthGenerate, AnEngineThatFailsIs503AndFineAgainAfterwards) {
  engine::EchoOptions options;
  options.script_for = engine::scripts_in_order({{.fail_at = 0}, {.throw_at = 0}});
  TestServer server(options);
  EXPECT_EQ(health_generate(server).status, 503);
  EXPECT_EQ(health_generate(server).status, 503);
  EXPECT_EQ(health_generate(server).status, 200);
}

TEST(HealthGenerate, AClientThatLeavesEndsTheLook) {
  engine::EchoOptions engine_options;
  engine_options.script_for = [](const engine::Job&) {
    return engine::EchoScript{.start_delay = 60s};
  };
  TestServer server(engine_options);
  {
    RawConnection client(server.port());
    client.send("GET /health_generate HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_TRUE(server.wait_for([](const auto& s) { return s.running == 1; }));
  }
  EXPECT_TRUE(server.wait_for([](const auto& s) { return s.running == 0; }));
}

TEST(Health, IsStuckWithItsAgePastTheWatchdogAndOkWhenTheEngineGoesOn) {
  engine::EchoOptions engine_options;
  engine_options.script_for = engine::scripts_in_order({{.hang_at = 0, .hang = 1500ms}});
  server::ServerOptions options;
  options.serving.watchdog_timeout = 300ms;
  TestServer server(engine_options, options);
  const auto stuck = stream(server, R"({"prompt":"abc"})");
  ASSERT_TRUE(server.wait_for([](const auto& s) { return s.last_step_age > 310ms; }));
  const HttpReply health = request(server.port(), "GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_THAT(health.body, HasSubstr("\"stuck\""));
  EXPECT_GT(find_int(parse_json(health.body)->as_object(), "last_step_age_ms"), 300);
  EXPECT_THAT(stuck->receive_until("watchdog", 5s), HasSubstr("500"));
  ASSERT_TRUE(server.wait_for([](const auto& s) { return s.running + s.waiting == 0; }));
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", R"({"prompt":"x"})").status, 200);
}

TEST(Watchdog, WhatStaysStuckIsToldOnceAndAfterTheRequestsHaveFailed) {
  engine::EchoOptions engine_options;
  engine_options.script_for = hang_on_h;
  server::ServerOptions options;
  options.serving.watchdog_timeout = 100ms;
  std::atomic<int> told{0};
  options.on_stuck = [&] { ++told; };
  TestServer server(engine_options, options);
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", R"({"prompt":"hang"})").status, 500);
  for (int i = 0; i < 500 && told == 0; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_GE(server.engine().stats().last_step_age, 200ms);
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(told, 1);
}

TEST(Refusals, SayWhenToComeBack) {
  TestServer server(full_engine());
  const auto running = stream(server, kEndless);
  running->receive_until("data: ", 5s);
  const auto waiting = stream(server, kEndless);
  ASSERT_TRUE(server.wait_for([](const auto& s) { return s.waiting == 1; }));
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/generate"}) {
    const std::string body =
        path == std::string("/generate") ? R"({"text":"x"})" : R"({"prompt":"x"})";
    const std::string chat = R"({"messages":[{"role":"user","content":"x"}]})";
    const HttpReply full =
        request(server.port(), "POST", path,
                std::string(path).find("chat") == std::string::npos ? body : chat);
    EXPECT_EQ(full.status, 429) << path;
    EXPECT_GE(std::stoi(full.header("Retry-After")), 1);
    const json::object error = parse_json(full.body)->as_object().at("error").as_object();
    EXPECT_EQ(find_string(error, "type"), "rate_limit_error");
    EXPECT_EQ(find_string(error, "code"), "queue_full");
  }
  server.server().drain();
  const HttpReply draining = request(server.port(), "POST", "/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(draining.status, 503);
  EXPECT_GE(std::stoi(draining.header("Retry-After")), 1);
  EXPECT_EQ(health_generate(server).status, 503);
  server.server().stop();
}

TEST(Queue, OfTwoHundredRequestsEveryOneIsAnsweredOrToldToComeBack) {
  engine::EchoOptions options;
  options.token_delay = 2ms;
  options.max_running_requests = 8;
  options.max_queued_requests = 32;
  TestServer server(options);
  std::vector<std::unique_ptr<RawConnection>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(stream(server, R"({"prompt":"0123456789"})"));
  }
  int done = 0;
  int refused = 0;
  for (const auto& client : clients) {
    const HttpReply reply = parse_reply(client->receive_until("}", 20s) + client->receive(100ms));
    done += reply.status == 200 ? 1 : 0;
    refused += reply.status == 429 && !reply.header("Retry-After").empty() ? 1 : 0;
  }
  EXPECT_EQ(done + refused, 200);
  EXPECT_GE(done, 40);
  EXPECT_GE(refused, 1);
  EXPECT_TRUE(server.wait_for([](const auto& s) { return s.running + s.waiting == 0; }));
}

TEST(Placement, PriorityAndNamespaceReachTheEngineFromEveryEndpoint) {
  std::vector<std::pair<int32_t, std::string>> seen;
  engine::EchoOptions options;
  options.script_for = [&](const engine::Job& job) -> std::optional<engine::EchoScript> {
    seen.emplace_back(job.priority, job.cache_namespace);
    return std::nullopt;
  };
  TestServer server(options);
  const std::string fields = R"(,"priority":-7,"cache_salt":"a","extra_key":"b"})";
  const auto ask = [&](const char* path, const std::string& body) {
    EXPECT_EQ(request(server.port(), "POST", path, body + fields).status, 200);
  };
  ask("/v1/completions", R"({"prompt":["x","y"])");
  ask("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}])");
  ask("/generate", R"({"text":"x")");
  ASSERT_EQ(seen.size(), 4u);
  for (const auto& [priority, cache_namespace] : seen) {
    EXPECT_EQ(priority, -7);
    EXPECT_EQ(cache_namespace, seen.front().second);
    EXPECT_FALSE(cache_namespace.empty());
  }
}

TEST(Abort, OneIdOfAListEndsAllOfItsPrompts) {
  engine::EchoOptions options;
  options.token_delay = 5ms;
  TestServer server(options);
  RawConnection client(server.port());
  const std::string endless = R"("sampling_params":{"ignore_eos":true,"max_new_tokens":8000}})";
  client.send(request_bytes("POST", "/generate",
                            R"({"text":["a","b"],"rid":"both","stream":true,)" + endless, {}));
  client.receive_until("data: ", 5s);
  EXPECT_THAT(request(server.port(), "POST", "/abort_request", R"({"rid":"bot"})").body,
              HasSubstr("\"aborted\":0"))
      << "an id is exact";
  EXPECT_THAT(request(server.port(), "POST", "/abort_request", R"({"rid":"both"})").body,
              HasSubstr("\"aborted\":2"));
  EXPECT_THAT(client.receive_all(5s), HasSubstr("[DONE]"));
}

TEST(Abort, AllAreTheWaitingOnesToo) {
  engine::EchoOptions options = full_engine();
  options.max_queued_requests = 4;
  TestServer server(options);
  std::vector<std::unique_ptr<RawConnection>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(stream(server, kEndless));
  }
  ASSERT_TRUE(server.wait_for([](const auto& s) { return s.running + s.waiting == 5; }));
  EXPECT_THAT(request(server.port(), "POST", "/abort_request", R"({"abort_all":true})").body,
              HasSubstr("\"aborted\":5"));
  for (const auto& client : clients) {
    EXPECT_THAT(client->receive_until("[DONE]", 5s), HasSubstr("\"finish_reason\":\"abort\""));
  }
  EXPECT_TRUE(server.wait_for([](const auto& s) { return s.running + s.waiting == 0; }));
}

TEST(Cancel, AClientThatLeavesTheQueueMakesRoom) {
  TestServer server(full_engine());
  const auto running = stream(server, kEndless);
  running->receive_until("data: ", 5s);
  const auto waiting = stream(server, kEndless);
  ASSERT_TRUE(server.wait_for([](const auto& s) { return s.waiting == 1; }));
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", kEndless).status, 429);
  waiting->close();
  ASSERT_TRUE(server.wait_for([](const auto& s) { return s.waiting == 0; }));
  const auto next = stream(server, R"({"prompt":"x","stream":true})");
  ASSERT_TRUE(server.wait_for([](const auto& s) { return s.waiting == 1; }));
  running->close();
  EXPECT_THAT(next->receive_until("[DONE]", 5s), HasSubstr("[DONE]"));
}

}  // namespace
}  // namespace pome::test
