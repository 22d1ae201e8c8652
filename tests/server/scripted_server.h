#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/test_server.h"

namespace pome::test {

// A server whose model says the given text, a byte a token.
class ScriptedServer {
 public:
  explicit ScriptedServer(text::AnswerForms forms, std::optional<std::string> chat_template = {})
      : server_(options(says_), {}, forms, std::move(chat_template)) {}

  void says(std::string_view text) {
    says_->assign(text.begin(), text.end());
    std::transform(says_->begin(), says_->end(), says_->begin(),
                   [](Token byte) { return byte & 0xff; });
  }
  const TestServer& server() const { return server_; }

 private:
  static engine::EchoOptions options(std::shared_ptr<std::vector<Token>> says) {
    engine::EchoOptions options;
    options.script_for = [says](const engine::Job&) { return engine::EchoScript{.tokens = *says}; };
    return options;
  }

  std::shared_ptr<std::vector<Token>> says_ = std::make_shared<std::vector<Token>>();
  TestServer server_;
};

}  // namespace pome::test
