// A server that listens before it has a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/echo/echo_engine.h"
#include "server/generation/echo_text.h"
#include "server/server.h"
#include "support/http_client.h"

namespace pome::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

server::ServerOptions on_a_free_port() {
  server::ServerOptions options;
  options.port = 0;
  options.serving.served_model_name = "echo";
  return options;
}

// What `serve` holds while the model is found and read; the model may come later.
class Start : public testing::Test {
 protected:
  void begin(server::ServerOptions options = on_a_free_port()) {
    server_.emplace(std::move(options));
    const Result<uint16_t> port = server_->listen();
    ASSERT_TRUE(port.ok()) << port.error().message;
    port_ = *port;
    thread_ = std::thread([this] { server_->run(); });
  }
  void serve() {
    engine_.emplace(engine::EchoOptions());
    server_->serve(*engine_, server::make_echo_text().value());
  }
  void TearDown() override {
    server_->stop();
    thread_.join();
    server_.reset();
  }
  HttpReply ask(std::string_view method, std::string_view path, std::string_view body = {}) const {
    return request(port_, method, path, body);
  }

  std::optional<engine::EchoEngine> engine_;
  std::optional<server::Server> server_;
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST_F(Start, HealthIsStartingBeforeThereIsAModel) {
  begin();
  const HttpReply reply = ask("GET", "/health");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body,
            R"({"status":"starting","running":0,"waiting":0,"steps":0,"last_step_age_ms":0})");
}

TEST_F(Start, EveryOtherRequestIs503AndSaysWhenToComeAgain) {
  begin();
  for (const auto& [method, path] :
       std::vector<std::pair<std::string, std::string>>{{"POST", "/v1/chat/completions"},
                                                        {"POST", "/v1/completions"},
                                                        {"POST", "/generate"},
                                                        {"POST", "/v1/tokenize"},
                                                        {"POST", "/abort_request"},
                                                        {"GET", "/v1/models"},
                                                        {"GET", "/v1/models/echo"},
                                                        {"GET", "/get_server_info"},
                                                        {"GET", "/health_generate"},
                                                        {"GET", "/metrics"},
                                                        {"GET", "/"}}) {
    const HttpReply reply = ask(method, path, method == "POST" ? "{}" : "");
    EXPECT_EQ(reply.status, 503) << path;
    EXPECT_EQ(reply.header("Retry-After"), "1") << path;
    EXPECT_THAT(reply.body, HasSubstr("the model is still loading")) << path;
  }
}

TEST_F(Start, PathsAndKeysAreLookedAtAllTheSame) {
  server::ServerOptions options = on_a_free_port();
  options.api_key = "secret";
  begin(std::move(options));
  EXPECT_EQ(ask("GET", "/nowhere").status, 404);
  EXPECT_EQ(ask("DELETE", "/health").status, 405);
  EXPECT_EQ(ask("GET", "/v1/models").status, 401);
  EXPECT_EQ(ask("GET", "/health").status, 503);
}

TEST_F(Start, AConnectionOfTheStartIsAnsweredByTheModelWhenItIsThere) {
  begin();
  RawConnection early(port_);
  early.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(early.receive_until("ms\":0}", 5s), HasSubstr("starting"));
  serve();
  EXPECT_TRUE(engine_->wait_until_ready(10s).ok());
  early.send(request_bytes("POST", "/v1/completions", R"({"prompt":"hello"})", {}));
  EXPECT_EQ(parse_reply(early.receive_all(5s)).status, 200);
}

TEST_F(Start, SamplingDefaultsOfTheModelTakeThePlaceOfTheOptions) {
  begin();
  engine::EchoOptions options;
  std::optional<float> seen;
  options.script_for = [&](const engine::Job& job) {
    seen = job.sampling.temperature;
    return engine::EchoScript();
  };
  engine_.emplace(std::move(options));
  sampling::Params recommended;
  recommended.temperature = 0.25f;
  server_->serve(*engine_, server::make_echo_text().value(), recommended);
  EXPECT_TRUE(engine_->wait_until_ready(10s).ok());
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"hello","max_tokens":1})").status, 200);
  EXPECT_EQ(seen, 0.25f);
}

TEST_F(Start, ADrainBeforeThereIsAModelEndsTheServer) {
  begin();
  server_->drain();
  thread_.join();
  thread_ = std::thread();
  EXPECT_FALSE(RawConnection(port_).connected());
  serve();  // the model comes too late, which changes nothing
  thread_ = std::thread([] {});
}

}  // namespace
}  // namespace pome::test
