#pragma once

#include <map>
#include <string>
#include <vector>

namespace pome::test {

struct ScenarioExchange {
  std::string title;
  std::vector<std::string> request_lines;  // as in the file, with their "> " or ">! "
  std::vector<std::string> reply_lines;    // without "< "
};

struct ScenarioFile {
  std::vector<std::string> head_lines;  // comments and options, as in the file
  std::map<std::string, std::string> engine;
  std::map<std::string, std::string> server;
  std::vector<ScenarioExchange> exchanges;
};

ScenarioFile read_scenario(const std::string& path);
void write_scenario(const std::string& path, const ScenarioFile& file);

// The bytes that the exchange sends.
std::string exchange_bytes(const ScenarioExchange& exchange);

// What came back as lines, with everything that differs between two runs replaced.
std::vector<std::string> reply_lines(const std::string& received);

}  // namespace pome::test
