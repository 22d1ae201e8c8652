// Connections: addresses, clients that go, are slow or send too much at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "support/http_client.h"
#include "support/test_server.h"

namespace pome::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr const char* kLongStream =
    R"({"prompt":"abc","stream":true,"ignore_eos":true,"max_tokens":8000})";

engine::EchoOptions slow_engine() {
  engine::EchoOptions options;
  options.token_delay = 5ms;
  return options;
}

std::string stream_request(const char* body) {
  return request_bytes("POST", "/v1/completions", body, {});
}

bool is_quiet(const engine::EngineStats& stats) {
  return stats.running + stats.waiting == 0;
}

TEST(Connection, LocalhostAnswersOverIpv4AndIpv6OnOnePort) {
  TestServer server;
  RawConnection v6(server.port(), "::1");
  if (!v6.connected()) {
    GTEST_SKIP() << "this machine has no IPv6 loopback";
  }
  v6.send(request_bytes("GET", "/health", "", {}));
  EXPECT_EQ(parse_reply(v6.receive_all(5s)).status, 200);
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
}

TEST(Connection, APortInUseIsOneClearError) {
  TestServer first;
  server::ServerOptions options;
  options.port = first.port();
  server::Server second(options);
  const Result<uint16_t> port = second.listen();
  ASSERT_FALSE(port.ok());
  EXPECT_THAT(port.error().message, HasSubstr("is in use"));
  EXPECT_THAT(port.error().message, HasSubstr("--port"));
}

TEST(Connection, AClientThatLeavesMidAnswerCancelsItsRequest) {
  TestServer server(slow_engine());
  RawConnection client(server.port());
  client.send(stream_request(kLongStream));
  client.receive_until("data: ", 5s);
  client.close();
  EXPECT_TRUE(server.wait_for(is_quiet));
  EXPECT_EQ(server.engine().stats().cancelled_total, 1);
}

TEST(Connection, AClientThatLeavesBeforeTheFirstTokenCancelsItsRequestToo) {
  engine::EchoOptions options;
  options.script_for = [](const engine::Job&) { return engine::EchoScript{.start_delay = 60s}; };
  TestServer server(options);
  RawConnection client(server.port());
  client.send(stream_request(R"({"prompt":"abc"})"));
  ASSERT_TRUE(server.wait_for([](const auto& stats) { return stats.running == 1; }));
  client.close();
  EXPECT_TRUE(server.wait_for(is_quiet));
}

TEST(Connection, AHalfClosedConnectionCountsAsClosed) {
  TestServer server(slow_engine());
  RawConnection client(server.port());
  client.send(stream_request(kLongStream));
  client.receive_until("data: ", 5s);
  client.shut_down_sending();
  EXPECT_TRUE(server.wait_for(is_quiet));
}

TEST(Connection, FourOfEightStreamsThatAreDroppedLeaveTheOthersWhole) {
  TestServer server(slow_engine());
  const std::string body = R"({"prompt":"0123456789","stream":true,"ignore_eos":true,)"
                           R"("max_tokens":100})";
  std::vector<std::unique_ptr<RawConnection>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawConnection>(server.port()));
    clients.back()->send(stream_request(body.c_str()));
  }
  for (size_t i = 0; i < 8; i += 2) {
    clients[i]->receive_until("data: ", 5s);
    clients[i]->close();
  }
  for (size_t i = 1; i < 8; i += 2) {
    EXPECT_THAT(clients[i]->receive_all(10s), HasSubstr("data: [DONE]"));
  }
  EXPECT_TRUE(server.wait_for(is_quiet));
  EXPECT_EQ(server.engine().stats().cancelled_total, 4);
}

// A client that takes nothing of the answer: it is cancelled before it ends, and nobody else.
void expect_cancelled(std::string_view target, std::string_view body) {
  engine::EchoOptions engine_options;
  engine_options.token_delay = 1ms;
  server::ServerOptions options;
  options.limits.client_timeout = 300ms;
  TestServer server(engine_options, options);
  RawConnection client(server.port());
  client.set_receive_buffer(4096);
  client.send(request_bytes("POST", target, body, {}));
  EXPECT_TRUE(server.wait_for(
      [](const auto& stats) { return stats.cancelled_total + stats.finished_total == 1; }));
  EXPECT_EQ(server.engine().stats().cancelled_total, 1);
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
}

TEST(Connection, AClientThatTakesNothingIsCancelledAfterTheClientTimeout) {
  // Cumulative text: each event is longer than the one before, so the socket's buffers fill soon.
  expect_cancelled("/generate", R"({"text":"abc","stream":true,)"
                                R"("sampling_params":{"ignore_eos":true,"max_new_tokens":8000}})");
}

TEST(Connection, AClientThatTakesNoSmallPiecesIsCancelledTooBeforeTheAnswerEnds) {
  // Pieces as small as a chat's: a system would buffer them all.
  expect_cancelled("/v1/completions",
                   R"({"prompt":"abc","stream":true,"ignore_eos":true,"max_tokens":8000})");
}

TEST(Connection, ASlowHeaderEndsTheConnectionAndNobodyElses) {
  server::ServerOptions options;
  options.limits.header_timeout = 200ms;
  TestServer server({}, options);
  RawConnection slow(server.port());
  slow.send("GET /health HTTP/1.1\r\nHost: loc");
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
  slow.receive_all(3s);
  EXPECT_TRUE(slow.at_end());
}

TEST(Connection, ASlowBodyEndsTheConnection) {
  server::ServerOptions options;
  options.limits.body_timeout = 200ms;
  TestServer server({}, options);
  RawConnection slow(server.port());
  slow.send("POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  slow.receive_all(3s);
  EXPECT_TRUE(slow.at_end());
}

TEST(Connection, AConnectionThatSaysNothingIsClosedAfterTheIdleTimeout) {
  server::ServerOptions options;
  options.limits.idle_timeout = 200ms;
  TestServer server({}, options);
  RawConnection idle(server.port());
  idle.receive_all(3s);
  EXPECT_TRUE(idle.at_end());
}

TEST(Connection, OneMoreThanTheMostIsClosedAtOnceAndTheFirstGoOn) {
  server::ServerOptions options;
  options.limits.connections_max = 2;
  TestServer server({}, options);
  RawConnection first(server.port());
  RawConnection second(server.port());
  first.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  second.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(first.receive_until("pome serves", 5s), HasSubstr("200 OK"));
  EXPECT_THAT(second.receive_until("pome serves", 5s), HasSubstr("200 OK"));
  RawConnection third(server.port());
  third.receive_all(3s);
  EXPECT_TRUE(third.at_end());
  first.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(first.receive_until("pome serves", 5s), HasSubstr("200 OK"));
}

TEST(Connection, HeadersAtTheLimitPassAndOneByteMoreIs431) {
  server::ServerOptions options;
  options.limits.header_bytes_max = 1000;
  TestServer server({}, options);
  // The limit holds for the lines after the request line.
  const auto status_of = [&](size_t bytes) {
    const std::string begin = "Host: localhost\r\nConnection: close\r\nX-Bomb: ";
    RawConnection client(server.port());
    client.send("GET / HTTP/1.1\r\n" + begin + std::string(bytes - begin.size() - 4, 'x') +
                "\r\n\r\n");
    return parse_reply(client.receive_all(5s)).status;
  };
  EXPECT_EQ(status_of(1000), 200);
  EXPECT_EQ(status_of(1001), 431);
  EXPECT_EQ(status_of(1 << 20), 431);
}

TEST(Connection, ARequestLinePastTheLimitIs431) {
  server::ServerOptions options;
  options.limits.header_bytes_max = 1000;
  TestServer server({}, options);
  RawConnection client(server.port());
  client.send("GET /" + std::string(2000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(parse_reply(client.receive_all(5s)).status, 431);
}

TEST(Connection, ABodyAtTheLimitPassesAndOneByteMoreIs413) {
  server::ServerOptions options;
  options.limits.body_bytes_max = 1000;
  TestServer server({}, options);
  const auto status_of = [&](size_t bytes) {
    std::string body = R"({"prompt":"x"})";
    body.resize(bytes, ' ');
    return request(server.port(), "POST", "/v1/completions", body).status;
  };
  EXPECT_EQ(status_of(1000), 200);
  EXPECT_EQ(status_of(1001), 413);
}

TEST(Connection, AnExpectedContinueIsSentAndAKeptConnectionTakesTheNextRequest) {
  TestServer server;
  RawConnection client(server.port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 14\r\n\r\n");
  EXPECT_THAT(client.receive_until("\r\n\r\n", 5s), HasSubstr("100 Continue"));
  client.send(R"({"prompt":"x"})");
  EXPECT_THAT(client.receive_until("usage", 5s), HasSubstr("200 OK"));
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.receive_all(5s), HasSubstr("pome serves"));
}

TEST(Connection, RequestsInOneWriteAreAnsweredInTurnWithAStreamBeforeThem) {
  TestServer server;
  RawConnection client(server.port());
  const std::string body = R"({"prompt":"abc","stream":true})";
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body +
              "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string all = client.receive_all(5s);
  EXPECT_LT(all.find("[DONE]"), all.find("pome serves"));
  EXPECT_THAT(all, HasSubstr("pome serves"));
}

}  // namespace
}  // namespace pome::test
