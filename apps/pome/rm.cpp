#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "hub/pull.h"
#include "hub/transfer/text.h"
#include "pome/command.h"
#include "pome/flags/command_line.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/host/report.h"

namespace pome::apps {

int rm_command(const std::vector<std::string>& words) {
  const std::vector<ExtraOption> extras = {{"-y,--yes", "Without asking.", false}};
  const auto line = parse_command_line(words, false, extras, 1);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all || line->positionals.empty()) {
    return show_usage(R"(usage: pome rm NAME [-y]

Removes a pulled model, unfinished downloads of it included. A model in Hugging Face's cache goes
for its other users too, so pome asks first.

)" + extras_help(extras),
                      line->help || line->help_all);
  }
  const std::string& name = line->positionals.front();
  if (!line->has("yes") && ::isatty(STDIN_FILENO) == 1) {
    fmt::print(stderr, "Remove {} from this machine? [y/N] ", name);
    std::string answer;
    if (!std::getline(std::cin, answer) || (answer != "y" && answer != "Y" && answer != "yes")) {
      fmt::print(stderr, "kept\n");
      return kFailed;
    }
  }
  auto bytes = hub::remove_local(hub::settings_from(environment), name);
  if (!bytes) {
    return failed(bytes.error());
  }
  fmt::print("removed {}: {} freed\n", name, hub::format_bytes(bytes.value()));
  return 0;
}

}  // namespace pome::apps
