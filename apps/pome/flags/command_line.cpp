#include "pome/flags/command_line.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <map>

namespace pome::apps {
namespace {

// Where CLI11 puts what it reads, by name; addresses stay put.
struct Store {
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, bool> toggles;
  std::map<std::string, const CLI::Option*> given;  // toggles: one may be given as =false
};

std::string joined_names(const Flag& flag) {
  std::string names;
  for (const auto& name : flag.names) {
    names += (names.empty() ? "" : ",") + name;
  }
  return names;
}

void add_launch_flag(CLI::App& app, Store& store, const Flag& flag) {
  auto& values = store.values[flag.name()];
  if (flag.kind == Kind::toggle) {
    store.given[flag.name()] = app.add_flag(joined_names(flag), store.toggles[flag.name()]);
  } else if (flag.kind == Kind::list) {
    app.add_option(joined_names(flag), values)->expected(0, 1 << 10);
  } else {
    // The last one wins, as in every shell script that appends to a common command.
    app.add_option(joined_names(flag), values)
        ->expected(1)
        ->allow_extra_args(false)
        ->type_name(flag.placeholder)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

std::string first_name(const ExtraOption& extra) {
  const size_t at = extra.names.rfind("--");
  return at == std::string::npos ? extra.names : extra.names.substr(at + 2);
}

Error explain(const std::vector<std::string>& left_over, bool launch,
              const CLI::ParseError& error) {
  for (const auto& word : left_over) {
    if (word.starts_with('-')) {
      const std::string name = word.substr(0, word.find('='));
      const std::string near = launch ? nearest_flag(name) : "";
      return invalid(
          fmt::format("there is no flag {}{}", name,
                      near.empty() ? "; --help lists them" : "; did you mean " + near + "?"));
    }
  }
  if (!left_over.empty()) {
    return invalid(
        fmt::format("'{}' is one word too many; --help shows the form", left_over.front()));
  }
  return invalid(error.what());
}

// CLI11 speaks of options and conversions; a person gave a flag without a value, or `--flag=maybe`.
Error explain_value(const CLI::ParseError& error, const std::vector<std::string>& words) {
  const std::string text = error.what();
  for (const auto& word : words) {
    const size_t equals = word.find('=');
    const Flag* flag = word.starts_with("--") ? find_flag(word.substr(0, equals)) : nullptr;
    if (flag && flag->kind == Kind::toggle && equals != std::string::npos &&
        text.find(word.substr(equals + 1)) != std::string::npos) {
      return invalid(fmt::format("{}: expected true or false, got '{}'", flag->name(),
                                 word.substr(equals + 1)),
                     flag->key());
    }
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
    return invalid(fmt::format("{}: its value is missing", text.substr(0, text.find(':'))));
  }
  return invalid(text);
}

void collect(const Store& store, bool launch, const std::vector<ExtraOption>& extras,
             CommandLine& line) {
  for (const auto& flag : launch ? launch_flags() : std::vector<Flag>()) {
    const auto& values = store.values.at(flag.name());
    if (flag.kind != Kind::toggle) {
      if (!values.empty()) {
        line.flags.push_back({flag.name(), values});
      }
    } else if (store.given.at(flag.name())->count() > 0) {
      line.flags.push_back({flag.name(), {store.toggles.at(flag.name()) ? "true" : "false"}});
    }
  }
  for (const auto& extra : extras) {
    const std::string name = first_name(extra);
    const auto& values = store.values.at("extra " + name);
    if (extra.takes_value ? !values.empty() : store.toggles.at("extra " + name)) {
      line.extras.push_back({name, values.empty() ? "" : values.back()});
    }
    for (size_t i = 0; extra.many && i + 1 < values.size(); ++i) {
      line.extras.insert(line.extras.end() - 1, {name, values[i]});
    }
  }
}

}  // namespace

bool CommandLine::has(const std::string& name) const {
  return extra(name).has_value();
}

std::optional<std::string> CommandLine::extra(const std::string& name) const {
  for (const auto& [key, value] : extras) {
    if (key == name) {
      return value;
    }
  }
  return std::nullopt;
}

std::vector<std::string> CommandLine::extra_all(const std::string& name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : extras) {
    if (key == name) {
      values.push_back(value);
    }
  }
  return values;
}

Result<CommandLine> parse_command_line(const std::vector<std::string>& words, bool launch,
                                       const std::vector<ExtraOption>& extras,
                                       size_t positionals_max) {
  CLI::App app;
  app.set_help_flag();
  Store store;
  CommandLine line;
  app.add_flag("-h,--help", line.help);
  app.add_flag("--help-all", line.help_all);
  for (const auto& flag : launch ? launch_flags() : std::vector<Flag>()) {
    add_launch_flag(app, store, flag);
  }
  for (const auto& extra : extras) {
    const std::string key = "extra " + first_name(extra);
    auto& values = store.values[key];
    if (extra.many) {
      app.add_option(extra.names, values)->expected(1, 1 << 10);
    } else if (extra.takes_value) {
      app.add_option(extra.names, values)
          ->expected(1)
          ->allow_extra_args(false)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else {
      app.add_flag(extra.names, store.toggles[key]);
    }
  }
  if (positionals_max > 0) {
    app.add_option("words", line.positionals)->expected(0, 1 << 10);
  }
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::ExtrasError& error) {
    return explain(app.remaining(), launch, error);
  } catch (const CLI::ParseError& error) {
    return explain_value(error, words);
  }
  if (line.positionals.size() > positionals_max) {
    return invalid(fmt::format("'{}' is one word too many; --help shows the form",
                               line.positionals[positionals_max]));
  }
  collect(store, launch, extras, line);
  return line;
}

}  // namespace pome::apps
