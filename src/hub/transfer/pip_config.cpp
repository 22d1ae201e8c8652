#include "hub/transfer/pip_config.h"

#include "hub/transfer/text.h"

namespace pome::hub {
namespace {

std::vector<std::filesystem::path> config_files(const Environment& environment) {
  std::vector<std::filesystem::path> files = {"/etc/pip.conf"};
  if (auto home = environment("HOME")) {
    const std::filesystem::path base(*home);
    files.push_back(base / ".pip/pip.conf");
    files.push_back(base / "Library/Application Support/pip/pip.conf");
    files.push_back(
        std::filesystem::path(environment("XDG_CONFIG_HOME").value_or(base / ".config")) /
        "pip/pip.conf");
  }
  if (auto file = environment("PIP_CONFIG_FILE")) {
    files.push_back(*file);
  }
  return files;
}

// Folders only; pip also accepts web pages here, which are for pip alone.
std::vector<std::filesystem::path> folders(std::string_view list) {
  std::vector<std::filesystem::path> found;
  std::string word;
  for (const char c : std::string(list) + " ") {
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
      word += c;
    } else if (!word.empty()) {
      if (word.starts_with("file://")) {
        word.erase(0, 7);
      }
      if (word.find("://") == std::string::npos) {
        found.emplace_back(word);
      }
      word.clear();
    }
  }
  return found;
}

void apply_option(const std::string& name, const std::string& value, PipConfig& config) {
  if (name == "index-url" || name == "index_url") {
    config.index_url = value;
  } else if (name == "cert") {
    config.cert = value;
  } else if (name == "find-links" || name == "find_links") {
    config.find_links = folders(value);
  }
}

}  // namespace

void apply_pip_file(std::string_view content, PipConfig& config) {
  bool relevant = false;
  std::string name;
  std::string value;
  const auto finish = [&] {
    if (relevant && !name.empty()) {
      apply_option(name, trimmed(value), config);
    }
    name.clear();
    value.clear();
  };
  for (const auto& line : split(content, '\n')) {
    const std::string text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') {
      continue;
    }
    if (line.front() == ' ' || line.front() == '\t') {
      value += "\n" + text;  // a value goes on in an indented line
      continue;
    }
    finish();
    if (text.front() == '[') {
      relevant = text == "[global]" || text == "[install]" || text == "[download]";
      continue;
    }
    if (const size_t mark = text.find_first_of("=:"); mark != std::string::npos) {
      name = lower_case(trimmed(text.substr(0, mark)));
      value = text.substr(mark + 1);
    }
  }
  finish();
}

PipConfig read_pip_config(const Environment& environment) {
  PipConfig config;
  for (const auto& file : config_files(environment)) {
    if (auto content = read_small_file(file, 1 << 20)) {
      apply_pip_file(*content, config);
    }
  }
  config.index_url = environment("PIP_INDEX_URL").value_or(config.index_url);
  config.cert = environment("PIP_CERT").value_or(config.cert);
  if (auto links = environment("PIP_FIND_LINKS")) {
    config.find_links = folders(*links);
  }
  return config;
}

}  // namespace pome::hub
