#include "scenario_file.h"

#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "support/http_client.h"

namespace pome::test {
namespace {

bool begins_with(const std::string& line, const char* prefix) {
  return line.rfind(prefix, 0) == 0;
}

std::map<std::string, std::string> read_options(const std::string& text) {
  std::map<std::string, std::string> options;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      throw std::runtime_error("expected key=value, got " + word);
    }
    options[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return options;
}

std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const char code = text[++i];
    if (code == 'r' || code == 'n' || code == '\\') {
      out += code == 'r' ? '\r' : code == 'n' ? '\n' : '\\';
    } else if (code == 'x' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      throw std::runtime_error("unknown escape in a raw line");
    }
  }
  return out;
}

std::string without_prefix(const std::string& line, size_t length) {
  return line.size() > length ? line.substr(length) : std::string();
}

std::string normalised(std::string line) {
  static const std::regex ids("[0-9a-f]{32}");
  static const std::regex created("\"created\":[0-9]+");
  static const std::regex latency("\"e2e_latency\":[-+.0-9eE]+");
  static const std::regex moment("\"(created|modified)_at\":\"[-0-9T:.]+Z\"");
  static const std::regex duration("\"((?!load)[a-z_]+_duration)\":[0-9]+");
  line = std::regex_replace(line, ids, "ID");
  line = std::regex_replace(line, moment, "\"$1_at\":TIME");
  line = std::regex_replace(line, duration, "\"$1\":TIME");
  line = std::regex_replace(line, created, "\"created\":TIME");
  return std::regex_replace(line, latency, "\"e2e_latency\":TIME");
}

void add_reply(const HttpReply& reply, std::vector<std::string>& out) {
  static const char* kShown[] = {
      "Content-Type", "Allow", "Retry-After", "WWW-Authenticate", "Access-Control-Allow-Origin",
      "X-Request-Id"};
  out.push_back(std::to_string(reply.status));
  for (const char* name : kShown) {
    const std::string value = normalised(reply.header(name));
    if (!value.empty() && value != "ID") {
      out.push_back(std::string(name) + ": " + value);
    }
  }
  out.emplace_back();
  std::istringstream body(reply.body);
  for (std::string line; std::getline(body, line);) {
    out.push_back(normalised(line));
  }
  while (!out.empty() && out.back().empty()) {
    out.pop_back();
  }
}

}  // namespace

ScenarioFile read_scenario(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    throw std::runtime_error("cannot read " + path);
  }
  ScenarioFile file;
  for (std::string line; std::getline(in, line);) {
    if (begins_with(line, "=== ")) {
      file.exchanges.push_back({.title = line.substr(4), .request_lines = {}, .reply_lines = {}});
    } else if (file.exchanges.empty()) {
      file.head_lines.push_back(line);
      if (begins_with(line, "@engine ")) {
        file.engine = read_options(line.substr(8));
      } else if (begins_with(line, "@server ")) {
        file.server = read_options(line.substr(8));
      }
    } else if (begins_with(line, ">")) {
      file.exchanges.back().request_lines.push_back(line);
    } else if (begins_with(line, "<")) {
      file.exchanges.back().reply_lines.push_back(without_prefix(line, 2));
    } else if (!line.empty()) {
      throw std::runtime_error(path + ": neither title, request nor reply: " + line);
    }
  }
  return file;
}

void write_scenario(const std::string& path, const ScenarioFile& file) {
  std::ofstream out(path);
  for (const std::string& line : file.head_lines) {
    out << line << '\n';
  }
  bool first = true;
  for (const ScenarioExchange& exchange : file.exchanges) {
    out << (first ? "" : "\n") << "=== " << exchange.title << '\n';
    first = false;
    for (const std::string& line : exchange.request_lines) {
      out << line << '\n';
    }
    for (const std::string& line : exchange.reply_lines) {
      out << (line.empty() ? "<" : "< ") << line << '\n';
    }
  }
}

std::string exchange_bytes(const ScenarioExchange& exchange) {
  std::string raw;
  std::string body;
  std::string method;
  std::string path;
  std::vector<std::pair<std::string, std::string>> headers;
  bool in_body = false;
  for (const std::string& line : exchange.request_lines) {
    if (begins_with(line, ">!")) {
      raw += unescape(without_prefix(line, 3));
      continue;
    }
    const std::string text = without_prefix(line, 2);
    if (method.empty()) {
      std::istringstream words(text);
      words >> method >> path;
    } else if (in_body) {
      body += text;
    } else if (text.empty()) {
      in_body = true;
    } else {
      const size_t colon = text.find(':');
      headers.emplace_back(text.substr(0, colon),
                           text.substr(text.find_first_not_of(' ', colon + 1)));
    }
  }
  return raw.empty() ? request_bytes(method, path, body, headers) : raw;
}

std::vector<std::string> reply_lines(const std::string& received) {
  std::vector<std::string> out;
  std::string_view rest = received;
  while (!rest.empty()) {
    size_t used = 0;
    const HttpReply reply = parse_reply(rest, &used);
    if (reply.status == 0) {
      break;
    }
    add_reply(reply, out);
    rest.remove_prefix(used);
  }
  if (out.empty()) {
    out.emplace_back("closed");
  }
  return out;
}

}  // namespace pome::test
