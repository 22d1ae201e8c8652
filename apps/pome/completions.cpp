#include <fmt/format.h>

#include <algorithm>

#include "pome/command.h"
#include "pome/flags/flag.h"
#include "pome/flags/help.h"
#include "pome/host/report.h"

namespace pome::apps {
namespace {

constexpr std::string_view kUsage = R"(usage: pome completions bash|zsh|fish

Prints what completes pome's commands, flags and their values in that shell. To use it now:

  bash   source <(pome completions bash)
  zsh    source <(pome completions zsh)       # after compinit
  fish   pome completions fish | source
)";

// The commands that take launch flags, as their usage says.
std::vector<std::string> flagged_commands() {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.usage.find("[FLAG…]") != std::string::npos) {
      names.push_back(command.name);
    }
  }
  return names;
}

std::vector<Flag> offered() {
  std::vector<Flag> flags;
  for (const Flag& flag : launch_flags()) {
    if (flag.treatment == Treatment::honoured) {
      flags.push_back(flag);
    }
  }
  return flags;
}

// What a shell takes between single quotes.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

std::string first_sentence(const std::string& text) {
  return text.substr(0, std::min(text.find(". "), text.find_last_not_of('.') + 1));
}

std::string names_of(const std::vector<Flag>& flags) {
  std::string names;
  for (const Flag& flag : flags) {
    names += flag.name() + " ";
  }
  return names + "--help";
}

std::string command_names() {
  std::string names;
  for (const Command& command : commands()) {
    names += (names.empty() ? "" : " ") + command.name;
  }
  return names;
}

// zsh runs the same script through its emulation of bash's completion.
std::string bash_script() {
  std::string values;
  for (const Flag& flag : offered()) {
    if (!flag.choices.empty()) {
      values += fmt::format("    {}) words={} ;;\n", flag.name(),
                            quoted(fmt::format("{}", fmt::join(flag.choices, " "))));
    }
  }
  return fmt::format(R"(_pome() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {commands} -- "$word"))
    return
  fi
  case ${{COMP_WORDS[COMP_CWORD - 1]}} in
{values}    *)
      case $word in
        -*)
          case ${{COMP_WORDS[1]}} in
            {flagged}) words={flags} ;;
            *) words=--help ;;
          esac ;;
      esac ;;
  esac
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _pome pome
)",
                     fmt::arg("commands", quoted(command_names())), fmt::arg("values", values),
                     fmt::arg("flagged", fmt::join(flagged_commands(), "|")),
                     fmt::arg("flags", quoted(names_of(offered()))));
}

std::string fish_script() {
  std::string out = "complete -c pome -n __fish_use_subcommand -f\n";
  for (const Command& command : commands()) {
    out += fmt::format("complete -c pome -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       quoted(command.summary));
  }
  const std::string flagged =
      quoted(fmt::format("__fish_seen_subcommand_from {}", fmt::join(flagged_commands(), " ")));
  for (const Flag& flag : offered()) {
    out += fmt::format("complete -c pome -n {} -l {} -d {}", flagged, flag.key(),
                       quoted(first_sentence(flag.help)));
    if (!flag.choices.empty()) {
      out += fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(flag.choices, " "))));
    } else if (flag.kind != Kind::toggle) {
      out += " -r";
    }
    out += "\n";
  }
  return out;
}

}  // namespace

int completions_command(const std::vector<std::string>& words) {
  if (words.size() == 1 && (words[0].starts_with("--help") || words[0] == "-h")) {
    return show_usage(std::string(kUsage), true);
  }
  const std::string shell = words.size() == 1 ? words[0] : "";
  if (shell == "bash") {
    fmt::print("{}", bash_script());
  } else if (shell == "zsh") {
    fmt::print("autoload -U +X bashcompinit && bashcompinit\n{}", bash_script());
  } else if (shell == "fish") {
    fmt::print("{}", fish_script());
  } else {
    return show_usage(std::string(kUsage), false);
  }
  return 0;
}

}  // namespace pome::apps
