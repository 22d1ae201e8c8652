#include "support/test_server.h"

#include "server/generation/echo_text.h"

namespace pome::test {

TestServer::TestServer(engine::EchoOptions engine_options, server::ServerOptions server_options)
    : engine_(std::make_unique<engine::EchoEngine>(std::move(engine_options))) {
  Result<server::ServedText> text = server::make_echo_text();
  CHECK(text.ok(), text.ok() ? "" : text.error().message);
  server_options.port = 0;
  if (server_options.serving.served_model_name.empty()) {
    server_options.serving.served_model_name = "echo";
  }
  server_ = std::make_unique<server::Server>(std::move(server_options), *engine_, std::move(*text));
  const Result<uint16_t> port = server_->listen();
  CHECK(port.ok(), port.ok() ? "" : port.error().message);
  port_ = *port;
  thread_ = std::thread([this] { server_->run(); });
}

TestServer::~TestServer() {
  server_->stop();
  join();
  server_.reset();
  engine_->stop();
}

void TestServer::join() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace pome::test
