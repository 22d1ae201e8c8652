// A server whose model says its prompt back slowly, or fails: what a browser must meet and a fast
// echo does not show. usage: pome_scripted_server NAME=VALUE…; it prints "listening on PORT".
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "engine/echo/echo_engine.h"
#include "server/generation/echo_text.h"
#include "server/server.h"

namespace pome::test {
namespace {

class Arguments {
 public:
  Arguments(int count, char** words) {
    for (int i = 1; i < count; ++i) {
      const std::string word = words[i];
      const size_t mark = word.find('=');
      CHECK(mark != std::string::npos, "an argument is NAME=VALUE");
      given_[word.substr(0, mark)] = word.substr(mark + 1);
    }
  }
  std::string text(const char* name, const std::string& otherwise) {
    const auto found = given_.find(name);
    if (found == given_.end()) {
      return otherwise;
    }
    std::string value = std::move(found->second);
    given_.erase(found);
    return value;
  }
  int number(const char* name, int otherwise) {
    return std::stoi(text(name, std::to_string(otherwise)));
  }
  bool all_read() const { return given_.empty(); }

 private:
  std::map<std::string, std::string> given_;
};

engine::EchoOptions engine_options(Arguments& arguments) {
  engine::EchoOptions options;
  options.token_delay = std::chrono::milliseconds(arguments.number("token_delay_ms", 0));
  options.ready_delay = std::chrono::milliseconds(arguments.number("ready_delay_ms", 0));
  options.max_running_requests = arguments.number("running", options.max_running_requests);
  options.max_queued_requests = arguments.number("queued", options.max_queued_requests);
  engine::EchoScript script;
  if (const int at = arguments.number("fail_at", -1); at >= 0) {
    script.fail_at = at;
  }
  options.script_for = [script](const engine::Job&) { return script; };
  return options;
}

text::ChatTemplateSources template_of(Arguments& arguments) {
  text::ChatTemplateSources sources;
  if (const std::string path = arguments.text("chat_template", ""); !path.empty()) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    sources.chosen = text.str();
  }
  return sources;
}

int serve(Arguments arguments) {
  server::ServerOptions options;
  options.port = static_cast<uint16_t>(arguments.number("port", 0));
  options.api_key = arguments.text("api_key", "");
  options.serving.served_model_name = "scripted";
  engine::EchoEngine engine(engine_options(arguments));
  Result<server::ServedText> text = server::make_echo_text(template_of(arguments));
  CHECK(text.ok(), text.ok() ? "" : text.error().message);
  text->forms = text::choose_answer_forms(arguments.text("tool_call_parser", "none"),
                                          arguments.text("reasoning_parser", "none"), "")
                    .value();
  CHECK(arguments.all_read(), "an argument that nobody knows");
  server::Server server(std::move(options));
  const Result<uint16_t> port = server.listen();
  CHECK(port.ok(), port.ok() ? "" : port.error().message);
  server.serve(engine, std::move(*text));
  std::printf("listening on %d\n", static_cast<int>(*port));
  std::fflush(stdout);
  server.run();  // until a signal ends the process
  return 0;
}

}  // namespace
}  // namespace pome::test

int main(int count, char** words) {
  return pome::test::serve(pome::test::Arguments(count, words));
}
