#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "engine/echo/echo_engine.h"
#include "server/server.h"

namespace pome::test {

// A server on a free loopback port before an echo engine, on a thread of its own; ends with the
// object.
class TestServer {
 public:
  // `forms`: how the engine's model would call tools and think aloud; `chat_template`: in place of
  // the messages' contents, one after another.
  explicit TestServer(engine::EchoOptions engine_options = {},
                      server::ServerOptions server_options = {}, text::AnswerForms forms = {},
                      std::optional<std::string> chat_template = {});
  ~TestServer();

  uint16_t port() const { return port_; }
  engine::EchoEngine& engine() { return *engine_; }
  server::Server& server() { return *server_; }
  void join();  // waits for run() to return

  // Waits until the engine's figures satisfy `condition`; false after ten seconds.
  template <typename Condition>
  bool wait_for(Condition condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition(engine_->stats())) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  std::unique_ptr<engine::EchoEngine> engine_;
  std::unique_ptr<server::Server> server_;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace pome::test
