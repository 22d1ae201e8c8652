#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pome::apps {

// What becomes of a flag that a launch command of another server may carry.
enum class Treatment {
  honoured,     // does what its help says
  meaningless,  // accepted with one warning line: nothing here depends on it
  refused,      // would change what the user gets, and pome cannot; the help names the alternative
};

enum class Kind { toggle, text, integer, number, list };

// One row of the one table of flags. --help, docs/cli.md, the parser, configuration files and
// environment variables all read it.
struct Flag {
  std::vector<std::string> names;  // "--tp-size", …; the first is the one that is shown
  std::string group;
  Treatment treatment = Treatment::honoured;
  Kind kind = Kind::text;
  std::string fallback;              // the default as text; empty: none
  std::string help;                  // honoured: what it does; else the reason or the alternative
  std::vector<std::string> choices;  // of a text; empty: any
  std::string neutral;  // a refused flag is accepted with this value: "1" for --tp-size
  std::string placeholder = "VALUE";

  const std::string& name() const { return names.front(); }
  // "--tp-size" as a key of configuration files: "tp-size".
  std::string key() const { return names.front().substr(2); }
  // "--tp-size" as an environment variable: "POME_TP_SIZE".
  std::string variable() const;
};

// A row that is honoured.
Flag flag(std::string group, std::vector<std::string> names, Kind kind, std::string placeholder,
          std::string fallback, std::string help, std::vector<std::string> choices = {});

// Every launch flag, grouped; names are unique.
const std::vector<Flag>& launch_flags();
// By any of its names, with or without dashes, '_' as good as '-'.
const Flag* find_flag(std::string_view name);
// The name that is nearest to a misspelt one; empty when none is near.
std::string nearest_flag(std::string_view name);

// The parts of the table, one file each.
std::vector<Flag> honoured_flags();
std::vector<Flag> observing_flags();  // honoured too
std::vector<Flag> meaningless_flags();
std::vector<Flag> refused_flags();

}  // namespace pome::apps
