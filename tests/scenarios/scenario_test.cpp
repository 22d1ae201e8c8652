#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "scenario_file.h"
#include "support/http_client.h"
#include "support/test_server.h"

namespace pome::test {
namespace {

using Options = std::map<std::string, std::string>;

class OptionReader {
 public:
  explicit OptionReader(const Options& options) : left_(options) {}

  std::string text(const char* name, const std::string& otherwise) {
    const auto found = left_.find(name);
    if (found == left_.end()) {
      return otherwise;
    }
    const std::string value = found->second;
    left_.erase(found);
    return value;
  }
  int number(const char* name, int otherwise) {
    return std::stoi(text(name, std::to_string(otherwise)));
  }
  // A misspelt option would test something else.
  void expect_all_read() const { EXPECT_THAT(left_, ::testing::IsEmpty()); }

 private:
  Options left_;
};

engine::EchoOptions engine_options(const Options& options) {
  OptionReader reader(options);
  engine::EchoOptions out;
  out.token_delay = std::chrono::milliseconds(reader.number("token_delay_ms", 0));
  out.ready_delay = std::chrono::milliseconds(reader.number("ready_delay_ms", 0));
  out.max_running_requests = reader.number("running", out.max_running_requests);
  out.max_queued_requests = reader.number("queued", out.max_queued_requests);
  out.model.context_tokens = reader.number("context", out.model.context_tokens);
  engine::EchoScript script;
  script.start_delay = std::chrono::milliseconds(reader.number("start_delay_ms", 0));
  if (const int at = reader.number("fail_at", -1); at >= 0) {
    script.fail_at = at;
  }
  if (const int at = reader.number("throw_at", -1); at >= 0) {
    script.throw_at = at;
  }
  out.script_for = [script](const engine::Job&) { return script; };
  reader.expect_all_read();
  return out;
}

text::AnswerForms answer_forms(OptionReader& reader) {
  return text::choose_answer_forms(reader.text("tool_call_parser", "none"),
                                   reader.text("reasoning_parser", "none"), "")
      .value();
}

server::ServerOptions server_options(OptionReader& reader) {
  server::ServerOptions out;
  out.host = reader.text("host", out.host);
  out.api_key = reader.text("api_key", "");
  if (const std::string origin = reader.text("allowed_origin", ""); !origin.empty()) {
    out.allowed_origins.push_back(origin);
  }
  out.serving.served_model_name = reader.text("served", "echo");
  out.serving.strict_model_name = reader.number("strict_model_name", 0) != 0;
  out.serving.incremental_streaming_output = reader.number("incremental", 0) != 0;
  out.serving.sampling_defaults.temperature = 0.0f;
  out.limits.body_bytes_max = static_cast<size_t>(reader.number("body_bytes_max", 1 << 20));
  out.limits.header_bytes_max = static_cast<size_t>(reader.number("header_bytes_max", 16 << 10));
  return out;
}

class Scenario : public ::testing::TestWithParam<std::string> {};

TEST_P(Scenario, TheServerSaysWhatTheFileSays) {
  const std::string path = std::string(POME_SCENARIOS) + "/" + GetParam() + ".scn";
  ScenarioFile file = read_scenario(path);
  OptionReader server_reader(file.server);
  const text::AnswerForms forms = answer_forms(server_reader);
  TestServer server(engine_options(file.engine), server_options(server_reader), forms);
  server_reader.expect_all_read();
  const bool update = std::getenv("UPDATE") != nullptr;
  for (ScenarioExchange& exchange : file.exchanges) {
    RawConnection connection(server.port());
    ASSERT_TRUE(connection.connected());
    connection.send(exchange_bytes(exchange));
    const auto lines = reply_lines(connection.receive_all(std::chrono::seconds(10)));
    if (update) {
      exchange.reply_lines = lines;
    } else {
      EXPECT_THAT(lines, ::testing::ElementsAreArray(exchange.reply_lines))
          << path << ": " << exchange.title;
    }
  }
  if (update) {
    write_scenario(path, file);
  }
}

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(POME_SCENARIOS)) {
    if (entry.path().extension() == ".scn") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, Scenario, ::testing::ValuesIn(scenario_names()),
                         [](const auto& scenario) { return scenario.param; });

}  // namespace
}  // namespace pome::test
