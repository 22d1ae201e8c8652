#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pome/flags/settings.h"

namespace pome::apps {

// An option of one command alone, such as `--json`.
struct ExtraOption {
  std::string names;  // CLI11's form: "-y,--yes"
  std::string help;
  bool takes_value = false;
  std::string placeholder = "VALUE";
  bool many = false;  // one or more values, up to the next option
};

struct CommandLine {
  GivenFlags flags;                                         // of the table
  std::vector<std::pair<std::string, std::string>> extras;  // first name without dashes to value
  std::vector<std::string> positionals;
  bool help = false;
  bool help_all = false;

  bool has(const std::string& extra) const;
  std::optional<std::string> extra(const std::string& name) const;
  // Each value of an option that takes many.
  std::vector<std::string> extra_all(const std::string& name) const;
};

// Reads the words after the command's name. `launch`: the table's flags are allowed too. Unknown
// flags are an error that names the nearest known one.
Result<CommandLine> parse_command_line(const std::vector<std::string>& words, bool launch,
                                       const std::vector<ExtraOption>& extras,
                                       size_t positionals_max);

}  // namespace pome::apps
