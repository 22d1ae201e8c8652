#include "support/test_server.h"

#include "server/generation/echo_text.h"

namespace pome::test {

TestServer::TestServer(engine::EchoOptions engine_options, server::ServerOptions server_options,
                       text::AnswerForms forms, std::optional<std::string> chat_template)
    : engine_(std::make_unique<engine::EchoEngine>(std::move(engine_options))) {
  text::ChatTemplateSources templates;
  templates.chosen = std::move(chat_template);
  Result<server::ServedText> text = server::make_echo_text(std::move(templates));
  CHECK(text.ok(), text.ok() ? "" : text.error().message);
  text->forms = forms;
  server_options.port = 0;
  if (server_options.serving.served_model_name.empty()) {
    server_options.serving.served_model_name = "echo";
  }
  server_ = std::make_unique<server::Server>(std::move(server_options));
  const Result<uint16_t> port = server_->listen();
  CHECK(port.ok(), port.ok() ? "" : port.error().message);
  port_ = *port;
  server_->serve(*engine_, std::move(*text));
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
