#pragma once

#include <string>
#include <vector>

namespace pome::apps {

// Exit codes: 0 done, 1 it failed, 2 the command line or a setting is wrong, 130 interrupted.
inline constexpr int kFailed = 1;
inline constexpr int kMisused = 2;
inline constexpr int kInterrupted = 130;

struct Command {
  std::string name;
  std::string usage;    // "pull NAME [--revision REV]"
  std::string summary;  // one line
  int (*run)(const std::vector<std::string>& words);
};

// All of them, in the order of --help.
const std::vector<Command>& commands();

int serve_command(const std::vector<std::string>& words);
int chat_command(const std::vector<std::string>& words);
int run_command(const std::vector<std::string>& words);
int check_env_command(const std::vector<std::string>& words);
int show_config_command(const std::vector<std::string>& words);
int replay_command(const std::vector<std::string>& words);
int bench_command(const std::vector<std::string>& words);
int pull_command(const std::vector<std::string>& words);
int list_command(const std::vector<std::string>& words);
int rm_command(const std::vector<std::string>& words);
int service_command(const std::vector<std::string>& words);
int completions_command(const std::vector<std::string>& words);

}  // namespace pome::apps
