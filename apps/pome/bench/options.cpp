#include "pome/bench/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/check.h"
#include "pome/flags/help.h"

namespace pome::apps {
namespace {

ExtraOption extra_of(const Flag& flag) {
  ExtraOption extra;
  // The name that values are found by stands last.
  for (auto name = flag.names.rbegin(); name != flag.names.rend(); ++name) {
    extra.names += (extra.names.empty() ? "" : ",") + *name;
  }
  extra.help = flag.help;
  if (!flag.fallback.empty()) {
    extra.help += " [" + flag.fallback + "]";
  }
  extra.takes_value = flag.kind != Kind::toggle;
  extra.many = flag.kind == Kind::list;
  extra.placeholder = flag.placeholder;
  return extra;
}

std::vector<std::string> spellings(const std::vector<Flag>& table) {
  std::vector<std::string> names;
  for (const Flag& flag : table) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

// The one option that begins with the word; the word itself where there is none or more than one.
std::string whole_name(const std::string& word, const std::vector<Flag>& table) {
  const Flag* found = nullptr;
  const std::string* spelt = nullptr;
  for (const Flag& flag : table) {
    for (const std::string& name : flag.names) {
      if (!name.starts_with(word)) {
        continue;
      }
      if (found != nullptr && found != &flag) {
        return word;
      }
      found = &flag;
      spelt = &name;
    }
  }
  return spelt != nullptr ? *spelt : word;
}

std::vector<std::string> with_whole_names(const std::vector<std::string>& words,
                                          const std::vector<Flag>& table, bool launch) {
  const std::vector<std::string> known = spellings(table);
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const bool settled = !name.starts_with("--") || name.size() < 5 || name == "--help" ||
                         std::find(known.begin(), known.end(), name) != known.end() ||
                         (launch && find_flag(name) != nullptr);
    const std::string rest = equals == std::string::npos ? "" : word.substr(equals);
    out.push_back(settled ? word : whole_name(name, table) + rest);
  }
  return out;
}

Status check_row(const Flag& flag, const CommandLine& line) {
  const std::vector<std::string> values = line.extra_all(flag.key());
  if (values.empty()) {
    return {};
  }
  if (flag.treatment == Treatment::refused) {
    return invalid(fmt::format("{} is not available: {}", flag.name(), flag.help), flag.key());
  }
  for (const std::string& value : flag.choices.empty() ? std::vector<std::string>() : values) {
    if (std::find(flag.choices.begin(), flag.choices.end(), value) == flag.choices.end()) {
      return invalid(fmt::format("{}: expected {}, got '{}'", flag.name(),
                                 fmt::join(flag.choices, ", "), value),
                     flag.key());
    }
  }
  return {};
}

}  // namespace

BenchOptions::BenchOptions(const std::vector<Flag>& table, CommandLine line)
    : table_(table), line_(std::move(line)) {}

Result<BenchOptions> BenchOptions::parse(const std::vector<std::string>& words,
                                         const std::vector<Flag>& table, bool launch) {
  std::vector<ExtraOption> extras;
  for (const Flag& flag : table) {
    extras.push_back(extra_of(flag));
  }
  auto line = parse_command_line(with_whole_names(words, table, launch), launch, extras, 0);
  if (!line) {
    return line.error();
  }
  for (const Flag& flag : table) {
    POME_TRY(check_row(flag, *line));
  }
  return BenchOptions(table, std::move(*line));
}

std::vector<std::string> BenchOptions::warnings() const {
  std::vector<std::string> lines;
  for (const Flag& flag : table_) {
    if (flag.treatment == Treatment::meaningless && given(flag.key())) {
      lines.push_back(fmt::format("{} has no effect: {}", flag.name(), flag.help));
    }
  }
  return lines;
}

const Flag& BenchOptions::row(std::string_view name) const {
  const auto found = std::find_if(table_.begin(), table_.end(),
                                  [&](const Flag& flag) { return flag.key() == name; });
  CHECK(found != table_.end(), "an option that stands in no table");
  return *found;
}

bool BenchOptions::given(std::string_view name) const {
  return line_.has(row(name).key());
}

std::string BenchOptions::text(std::string_view name) const {
  return line_.extra(row(name).key()).value_or(row(name).fallback);
}

std::vector<std::string> BenchOptions::list(std::string_view name) const {
  const Flag& flag = row(name);
  if (given(name)) {
    return line_.extra_all(flag.key());
  }
  std::vector<std::string> words;
  for (size_t begin = 0; begin < flag.fallback.size();) {
    const size_t end = std::min(flag.fallback.find(' ', begin), flag.fallback.size());
    words.push_back(flag.fallback.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

void BenchOptions::fail(std::string_view name, std::string_view expected) {
  if (fault_.ok()) {
    fault_ = invalid(fmt::format("--{}: expected {}, got '{}'", name, expected, text(name)),
                     std::string(name));
  }
}

int32_t BenchOptions::whole_of(std::string_view name, const std::string& value, int32_t lowest) {
  int32_t number = 0;
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (fault != std::errc() || end != value.data() + value.size() || number < lowest) {
    if (fault_.ok()) {
      fault_ = invalid(fmt::format("--{}: expected a whole number of at least {}, got '{}'", name,
                                   lowest, value),
                       std::string(name));
    }
    return lowest;
  }
  return number;
}

int32_t BenchOptions::whole(std::string_view name, int32_t lowest) {
  return whole_of(name, text(name), lowest);
}

std::optional<int32_t> BenchOptions::whole_if_given(std::string_view name, int32_t lowest) {
  return given(name) ? std::optional(whole(name, lowest)) : std::nullopt;
}

std::vector<int32_t> BenchOptions::wholes(std::string_view name, int32_t lowest) {
  std::vector<int32_t> numbers;
  for (const std::string& value : list(name)) {
    numbers.push_back(whole_of(name, value, lowest));
  }
  return numbers;
}

double BenchOptions::number(std::string_view name, double lowest, double highest) {
  const std::string value = text(name);
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !(number >= lowest && number <= highest)) {
    fail(name, fmt::format("a number from {} to {}", lowest, highest));
    return lowest;
  }
  return number;
}

json::object BenchOptions::object(std::string_view name) {
  const std::string value = text(name);
  if (value.empty()) {
    return {};
  }
  auto parsed = parse_json(value);
  if (!parsed || !parsed->is_object()) {
    fail(name, "a JSON object");
    return {};
  }
  return parsed->get_object();
}

Flag bench_option(std::vector<std::string> names, Kind kind, std::string placeholder,
                  std::string fallback, std::string help, std::vector<std::string> choices) {
  return flag("Benchmark", std::move(names), kind, std::move(placeholder), std::move(fallback),
              std::move(help), std::move(choices));
}

Flag refused_option(std::vector<std::string> names, Kind kind, std::string instead) {
  Flag flag = bench_option(std::move(names), kind, "VALUE", "", std::move(instead));
  flag.treatment = Treatment::refused;
  return flag;
}

Flag idle_option(std::vector<std::string> names, Kind kind, std::string why) {
  Flag flag = bench_option(std::move(names), kind, "VALUE", "", std::move(why));
  flag.treatment = Treatment::meaningless;
  return flag;
}

std::string bench_options_help(const std::vector<Flag>& table) {
  std::vector<ExtraOption> honoured;
  std::string refused;
  for (const Flag& flag : table) {
    if (flag.treatment == Treatment::honoured) {
      honoured.push_back(extra_of(flag));
    } else {
      const char* what = flag.treatment == Treatment::refused ? "refused" : "no effect";
      refused += "  " + wrapped(fmt::format("{}: {}; {}", flag.name(), what, flag.help), 4, 100);
      refused += "\n";
    }
  }
  return extras_help(honoured) + (refused.empty() ? "" : "\nSGLang's other options:\n" + refused);
}

}  // namespace pome::apps
