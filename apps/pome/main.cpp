#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "pome/command.h"
#include "pome/flags/help.h"
#include "pome/version.h"

namespace pome::apps {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"serve", "serve [MODEL] [FLAG…]", "serve a model over HTTP: OpenAI's and SGLang's endpoints",
       serve_command},
      {"chat", "chat [MODEL] [FLAG…]", "talk to a model in the terminal, or to a server with --url",
       chat_command},
      {"run", "run PROMPT [FLAG…]", "answer one prompt and exit", run_command},
      {"pull", "pull NAME [--revision REV]", "fetch a model", pull_command},
      {"list", "list [--json]", "the models on this machine", list_command},
      {"rm", "rm NAME [-y]", "remove a model from this machine", rm_command},
      {"show-config", "show-config [FLAG…]", "every setting and where it comes from",
       show_config_command},
      {"check-env", "check-env [--json]",
       "this machine: chip, memory, system, MLX, and what is missing", check_env_command},
  };
  return all;
}

namespace {

void print_help(std::FILE* out) {
  fmt::print(out,
             "pome {} serves language models on Apple silicon, on MLX.\n\nusage: pome COMMAND "
             "[ARGUMENTS]\n\n",
             kVersion);
  for (const auto& command : commands()) {
    fmt::print(out, "  {:<12} {}\n", command.name, command.summary);
  }
  fmt::print(out, "\n  pome COMMAND --help says more. To begin: pome chat smollm2\n");
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    print_help(stderr);
    return kMisused;
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_help(stdout);
    return 0;
  }
  if (words[0] == "--version" || words[0] == "-V") {
    fmt::print("pome {}\n", kVersion);
    return 0;
  }
  if (words[0] == "--help-markdown") {
    fmt::print("{}", cli_markdown());
    return 0;
  }
  for (const auto& command : commands()) {
    if (command.name == words[0]) {
      return command.run({words.begin() + 1, words.end()});
    }
  }
  fmt::print(stderr, "pome: there is no command '{}'; `pome --help` lists them\n", words[0]);
  return kMisused;
}

}  // namespace
}  // namespace pome::apps

int main(int argc, char** argv) {
  try {
    return pome::apps::dispatch({argv + std::min(argc, 1), argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "pome: {}\n", error.what());
    return pome::apps::kFailed;
  }
}
