#include "pome/flags/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "pome/bench/bench.h"
#include "pome/command.h"

namespace pome::apps {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kColumn = 34;

std::string spelling(const Flag& flag) {
  std::string text = fmt::format("{}", fmt::join(flag.names, ", "));
  if (flag.kind != Kind::toggle) {
    text += " " + flag.placeholder;
  }
  return text;
}

std::string entry(const std::string& names, const std::string& help) {
  std::string line = "  " + names;
  line += line.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ')
                                    : std::string(kColumn - line.size(), ' ');
  return line + wrapped(help, kColumn, kWidth) + "\n";
}

std::vector<std::string> groups_of(Treatment treatment) {
  std::vector<std::string> groups;
  for (const auto& flag : launch_flags()) {
    if (flag.treatment == treatment &&
        std::find(groups.begin(), groups.end(), flag.group) == groups.end()) {
      groups.push_back(flag.group);
    }
  }
  return groups;
}

std::string honoured_help() {
  std::string text;
  for (const auto& group : groups_of(Treatment::honoured)) {
    text += "\n" + group + ":\n";
    for (const auto& flag : launch_flags()) {
      if (flag.treatment == Treatment::honoured && flag.group == group) {
        const std::string fallback = flag.fallback.empty() ? "" : " [" + flag.fallback + "]";
        text += entry(spelling(flag), flag.help + fallback);
      }
    }
  }
  return text;
}

std::string reasons_help(Treatment treatment) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& flag : launch_flags()) {
    if (flag.treatment == treatment) {
      by_reason[flag.help].push_back(flag.name() +
                                     (flag.neutral.empty() ? "" : " (" + flag.neutral + ")"));
    }
  }
  std::string text;
  for (const auto& [reason, names] : by_reason) {
    text += "  " + wrapped(reason + ":", 2, kWidth) + "\n    " +
            wrapped(fmt::format("{}", fmt::join(names, ", ")), 4, kWidth) + "\n";
  }
  return text;
}

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

std::string markdown_row(const Flag& flag) {
  std::string names;
  for (const auto& name : flag.names) {
    names += (names.empty() ? "`" : ", `") + name + "`";
  }
  if (flag.treatment == Treatment::honoured) {
    const std::string fallback = flag.fallback.empty() ? "" : "`" + flag.fallback + "`";
    return fmt::format("| {} | {} | {} | {} |\n", names, fallback, cell(flag.help),
                       "`" + flag.variable() + "`");
  }
  const std::string neutral = flag.neutral.empty() ? "" : "`" + flag.neutral + "`";
  return fmt::format("| {} | {} | {} |\n", names, neutral, cell(flag.help));
}

std::string bench_markdown(const std::vector<Flag>& rows) {
  std::string text = "| option | default | what it does |\n|---|---|---|\n";
  std::string others;
  for (const auto& flag : rows) {
    const std::string name = "`" + flag.name() + "`";
    if (flag.treatment == Treatment::honoured) {
      text += fmt::format("| {} | {} | {} |\n", name,
                          flag.fallback.empty() ? "" : "`" + flag.fallback + "`", cell(flag.help));
    } else {
      others += fmt::format("| {} | {} | {} |\n", name,
                            flag.treatment == Treatment::refused ? "refused" : "no effect",
                            cell(flag.help));
    }
  }
  return text + others;
}

std::string markdown_table(Treatment treatment, const std::string& head) {
  std::string text;
  for (const auto& group : groups_of(treatment)) {
    text += fmt::format("\n### {}\n\n{}\n", group, head);
    for (const auto& flag : launch_flags()) {
      if (flag.treatment == treatment && flag.group == group) {
        text += markdown_row(flag);
      }
    }
  }
  return text;
}

}  // namespace

std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    end = end == std::string::npos ? text.size() : end;
    const size_t length = end - begin;
    if (column > indent && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out.append(text, begin, length);
    column += length;
    begin = end + 1;
  }
  return out;
}

std::string extras_help(const std::vector<ExtraOption>& extras) {
  std::string text;
  for (const auto& extra : extras) {
    std::string names = extra.names;
    if (const size_t comma = names.find(','); comma != std::string::npos) {
      names.insert(comma + 1, " ");
    }
    text += entry(extra.takes_value ? names + " " + extra.placeholder : names, extra.help);
  }
  return text;
}

std::string flags_help(bool all) {
  std::string text = honoured_help();
  const auto count = [](Treatment treatment) {
    return std::count_if(launch_flags().begin(), launch_flags().end(),
                         [&](const Flag& flag) { return flag.treatment == treatment; });
  };
  if (!all) {
    return text + fmt::format(
                      "\nSGLang's other flags are known too: {} are accepted without effect, {} "
                      "refused with "
                      "the\nalternative. --help-all lists them; so does docs/cli.md.\n",
                      count(Treatment::meaningless), count(Treatment::refused));
  }
  return text + "\nAccepted, without effect here:\n" + reasons_help(Treatment::meaningless) +
         "\nRefused (but for the value in parentheses):\n" + reasons_help(Treatment::refused);
}

std::string cli_markdown() {
  std::string text =
      "# The command line\n\nWritten by `pome --help-markdown` from the table of flags; do not "
      "edit.\n\n"
      "| command | what it does |\n|---|---|\n";
  for (const auto& command : commands()) {
    text += fmt::format("| `pome {}` | {} |\n", cell(command.usage), cell(command.summary));
  }
  text +=
      "\n## Launch flags\n\nOf `serve`, `run`, `chat` and `show-config`. A flag wins over the file "
      "that `--config` "
      "names, that over the\nenvironment variable, that over the default.\n";
  text += markdown_table(Treatment::honoured,
                         "| flag | default | what it does | variable |\n|---|---|---|---|");
  for (const auto& benchmark : benchmarks()) {
    text += fmt::format("\n## `pome bench {}`\n\n{}.{}\n\n{}", benchmark.name, benchmark.summary,
                        benchmark.launch ? " It takes the launch flags too." : "",
                        bench_markdown(benchmark.rows()));
  }
  text +=
      "\n## Accepted without effect\n\nA launch command may carry these; each costs one warning "
      "line.\n";
  text += markdown_table(Treatment::meaningless,
                         "| flag | silent value | why it has no effect |\n|---|---|---|");
  text +=
      "\n## Refused\n\nThey would change what is served. The second column is the one value that "
      "is accepted.\n";
  text += markdown_table(Treatment::refused, "| flag | accepted value | instead |\n|---|---|---|");
  return text;
}

}  // namespace pome::apps
