#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "pome/command.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/version.h"

namespace pome::apps {

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
  pome::apps::prepare_mlx();
  try {
    return pome::apps::dispatch({argv + std::min(argc, 1), argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "pome: {}\n", error.what());
    return pome::apps::kFailed;
  }
}
