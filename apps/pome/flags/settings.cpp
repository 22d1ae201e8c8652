#include "pome/flags/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/check.h"

namespace pome::apps {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// std::from_chars for doubles is missing from some standard libraries that pome supports.
std::optional<double> parse_double(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string::npos) {
    return std::nullopt;
  }
  std::istringstream stream(text);
  stream.imbue(std::locale::classic());
  double value = 0;
  stream >> value;
  return stream && stream.eof() && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Error wrong(const Flag& flag, const std::string& origin, const std::string& expected,
            const std::string& got) {
  return invalid(fmt::format("{} ({}): expected {}, got '{}'", flag.name(), origin, expected, got),
                 flag.key());
}

Result<std::string> check_toggle(const Flag& flag, const std::string& value,
                                 const std::string& origin) {
  const std::string text = lower(value);
  if (text.empty() || text == "true" || text == "1" || text == "yes" || text == "on") {
    return std::string("true");
  }
  if (text == "false" || text == "0" || text == "no" || text == "off" || text == "none" ||
      text == "null") {
    return std::string("false");
  }
  return wrong(flag, origin, "true or false", value);
}

Status check_range(const Flag& flag, const std::string& value, const std::string& origin) {
  struct Range {
    std::string_view name;
    double lowest;
    double highest;
    std::string_view words;
  };
  static constexpr Range kRanges[] = {
      {"--port", 0, 65535, "a port from 0 to 65535"},
      {"--context-length", 1, 1 << 24, "a number of tokens, at least 1"},
      {"--max-running-requests", 1, 4096, "a number from 1 to 4096"},
      {"--max-queued-requests", 0, 1 << 20, "a number from 0 to 1048576"},
      {"--max-total-tokens", 1, 1e12, "a number of tokens, at least 1"},
      {"--mem-fraction-static", 0.01, 1, "a number from 0.01 to 1"},
      {"--chunked-prefill-size", 1, 1 << 24, "a number of tokens (steps always have a bound)"},
      {"--page-size", 1, 1024, "a number of tokens from 1 to 1024"},
      {"--threads", 1, 256, "a number from 1 to 256"},
      {"--schedule-conservativeness", 0.001, 10, "a number above 0 and at most 10"},
      {"--mlx-clear-cache-steps", 0, 1e12, "a number of steps, at least 0"},
      {"--watchdog-timeout", 0.001, 1e9, "seconds above 0"},
      {"--client-timeout", 0.001, 1e9, "seconds above 0"},
      {"--drain-timeout", 0, 1e9, "seconds, at least 0"},
      {"--log-requests-level", 0, 3, "a level from 0 to 3"},
  };
  const double number = parse_double(value).value_or(0);
  for (const auto& range : kRanges) {
    if (flag.name() == range.name && (number < range.lowest || number > range.highest)) {
      return wrong(flag, origin, std::string(range.words), value);
    }
  }
  return {};
}

// What browsers send as Origin: a scheme and an authority, without a path. `*` is any.
bool is_origin(std::string_view text) {
  if (text == "*") {
    return true;
  }
  const size_t colon = text.find("://");
  return colon != std::string_view::npos && colon > 0 && colon + 3 < text.size() &&
         text.find_first_of("/?# *\t", colon + 3) == std::string_view::npos;
}

// A name without scheme, port or path; ".example" is every name under it, `*` is any.
bool is_host(std::string_view text) {
  const std::string_view name = text.substr(0, 1) == "." ? text.substr(1) : text;
  return text == "*" ||
         (!name.empty() && name.find_first_of(":/?#*@ \t") == std::string_view::npos);
}

Status check_names(const Flag& flag, const std::string& value, const std::string& origin) {
  const std::vector<std::string> items = split_words(value);
  const auto wrong_item = [&](auto* is_right) {
    const auto found = std::find_if_not(items.begin(), items.end(), is_right);
    return found == items.end() ? std::optional<std::string>() : *found;
  };
  if (flag.name() == "--allowed-origins") {
    if (const auto item = wrong_item(is_origin)) {
      return wrong(flag, origin, "origins such as https://chat.example, or *", *item);
    }
  }
  if (flag.name() == "--allowed-hosts") {
    // An unset variable must not open a server that somebody wanted to close.
    const auto item = items.empty() ? std::optional<std::string>("") : wrong_item(is_host);
    if (item) {
      return wrong(flag, origin, "names such as mac.example, .example or *", *item);
    }
  }
  return {};
}

Result<std::string> check_value(const Flag& flag, const std::vector<std::string>& values,
                                const std::string& origin) {
  const std::string value = fmt::format("{}", fmt::join(values, " "));
  if (flag.kind == Kind::toggle) {
    return check_toggle(flag, value, origin);
  }
  if (flag.kind == Kind::integer && !parse_whole<int64_t>(value)) {
    return wrong(flag, origin, "a whole number", value);
  }
  if (flag.kind == Kind::number && !parse_double(value)) {
    return wrong(flag, origin, "a number", value);
  }
  // A variable that a script forgot to set must not open the server to the network or to everybody.
  if (flag.treatment == Treatment::honoured && flag.kind == Kind::text && value.empty()) {
    return wrong(flag, origin, "a value", value);
  }
  if (!flag.choices.empty() &&
      std::find(flag.choices.begin(), flag.choices.end(), value) == flag.choices.end()) {
    return wrong(flag, origin, fmt::format("one of {}", fmt::join(flag.choices, ", ")), value);
  }
  if (flag.name() == "--max-memory" && parse_bytes(value).value_or(0) <= 0) {
    return wrong(flag, origin, "a size such as 8GiB or 500MB", value);
  }
  if (flag.name() == "--mlx-cache-limit" && !parse_bytes(value)) {
    return wrong(flag, origin, "a size such as 32MiB, or 0", value);
  }
  if (flag.name().starts_with("--bucket-") && !parse_bounds(value)) {
    return wrong(flag, origin, "rising numbers of seconds above 0", value);
  }
  POME_TRY(check_names(flag, value, origin));
  POME_TRY(check_range(flag, value, origin));
  return value;
}

Result<GivenFlags> read_config(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream content;
  if (!stream || !(content << stream.rdbuf())) {
    return invalid(fmt::format("--config: cannot read {}", file), "config");
  }
  return parse_config(content.str(), file);
}

GivenFlags from_environment(const Settings::Environment& environment) {
  GivenFlags given;
  for (const auto& flag : launch_flags()) {
    if (auto value = environment(flag.variable())) {
      given.push_back({flag.name(), {*value}});
    }
  }
  return given;
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

Status Settings::apply(const std::string& name, const std::vector<std::string>& values,
                       const std::string& origin) {
  const Flag* flag = find_flag(name);
  if (!flag) {
    const std::string near = nearest_flag(name);
    return invalid(fmt::format("{} ({}): there is no such flag{}", name, origin,
                               near.empty() ? "; `pome serve --help` lists them"
                                            : "; did you mean " + near + "?"),
                   name);
  }
  auto value = check_value(*flag, values, origin);
  if (!value) {
    return value.error();
  }
  const bool off = flag->kind == Kind::toggle && value.value() == "false";
  const bool neutral = off || (!flag->neutral.empty() && value.value() == flag->neutral);
  if (flag->treatment == Treatment::refused && !neutral) {
    return invalid(
        fmt::format("{} ({}) is not supported: {}{}", flag->name(), origin, flag->help,
                    flag->neutral.empty() ? "" : fmt::format(" ({} is accepted)", flag->neutral)),
        flag->key());
  }
  Setting& setting = settings_.find(flag->name())->second;
  if (flag->treatment == Treatment::meaningless && !neutral && !setting.given) {
    warnings_.push_back(fmt::format("{} has no effect: {}", flag->name(), flag->help));
  }
  setting = {value.value(), origin, true};
  return {};
}

Result<Settings> Settings::resolve(const GivenFlags& command_line, const Environment& environment) {
  Settings settings;
  for (const auto& flag : launch_flags()) {
    const bool off = flag.kind == Kind::toggle && flag.fallback.empty();
    const std::string fallback = off ? "false" : flag.fallback;
    settings.settings_[flag.name()] = {fallback, "default", false};
  }
  for (const auto& [name, values] : from_environment(environment)) {
    POME_TRY(settings.apply(name, values, find_flag(name)->variable()));
  }
  std::string file = settings.text("--config");
  for (const auto& [name, values] : command_line) {
    if (find_flag(name) == find_flag("--config") && values.size() == 1) {
      file = values.front();
    }
  }
  if (!file.empty()) {
    auto config = read_config(file);
    if (!config) {
      return config.error();
    }
    for (const auto& [name, values] : config.value()) {
      POME_TRY(settings.apply(name, values, file));
    }
  }
  for (const auto& [name, values] : command_line) {
    POME_TRY(settings.apply(name, values, "command line"));
  }
  return settings;
}

const Setting& Settings::at(std::string_view name) const {
  const auto found = settings_.find(name);
  CHECK(found != settings_.end(), fmt::format("{} is not in the table of flags", name));
  return found->second;
}

std::optional<int64_t> Settings::integer(std::string_view name) const {
  return parse_whole<int64_t>(text(name));
}

std::optional<double> Settings::number(std::string_view name) const {
  return parse_double(text(name));
}

std::optional<std::vector<double>> parse_bounds(std::string_view text) {
  std::vector<double> bounds;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const auto bound = parse_double(word);
    if (!bound || *bound <= (bounds.empty() ? 0.0 : bounds.back())) {
      return std::nullopt;
    }
    bounds.push_back(*bound);
  }
  return bounds;
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  const size_t unit_at = text.find_first_not_of("0123456789.");
  const auto number = parse_double(std::string(text.substr(0, unit_at)));
  if (!number || *number < 0) {
    return std::nullopt;
  }
  const std::string unit =
      unit_at == std::string_view::npos ? "" : lower(std::string(text.substr(unit_at)));
  static const std::map<std::string, double> kUnits = {
      {"", 1},         {"b", 1},           {"kb", 1e3},          {"mb", 1e6},
      {"gb", 1e9},     {"k", 1024.0},      {"m", 1048576.0},     {"g", 1073741824.0},
      {"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1073741824.0}};
  const auto found = kUnits.find(unit);
  if (found == kUnits.end() || *number * found->second > 1e15) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*number * found->second);
}

}  // namespace pome::apps
