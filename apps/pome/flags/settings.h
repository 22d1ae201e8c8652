#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pome/flags/flag.h"

namespace pome::apps {

// A flag's value and who gave it: "command line", "config.yaml", "POME_PORT", "default".
struct Setting {
  std::string value;  // a toggle: "true" or "false"; a list: its items joined by a space
  std::string origin;
  bool given = false;  // not the default
};

// As given on one level: flag name to values, in order. A toggle has none, or "true"/"false".
using GivenFlags = std::vector<std::pair<std::string, std::vector<std::string>>>;

// The effective launch settings. Flags win over the configuration file, that over POME_ variables,
// those over defaults. Every value has been checked against its row of the table.
class Settings {
 public:
  using Environment = std::function<std::optional<std::string>(std::string_view name)>;

  // Errors name the flag, where the value came from, and what is expected; refused flags name the
  // alternative.
  static Result<Settings> resolve(const GivenFlags& command_line, const Environment& environment);

  // By the flag's first name. CHECKs that the flag is in the table.
  const Setting& at(std::string_view name) const;
  std::string text(std::string_view name) const { return at(name).value; }
  bool on(std::string_view name) const { return at(name).value == "true"; }
  // The value, or nothing where the flag has neither value nor default.
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;

  // One line for each given flag that is meaningless here.
  const std::vector<std::string>& warnings() const { return warnings_; }
  const std::map<std::string, Setting, std::less<>>& all() const { return settings_; }

 private:
  Status apply(const std::string& name, const std::vector<std::string>& values,
               const std::string& origin);

  std::map<std::string, Setting, std::less<>> settings_;
  std::vector<std::string> warnings_;
};

// The items of a list's value.
std::vector<std::string> split_words(std::string_view text);

// "8GiB", "500MB", "1073741824": bytes; nothing when it is no size.
std::optional<int64_t> parse_bytes(std::string_view text);

// "0.1 0.5 2": numbers above 0, each larger than the one before; nothing when they are not.
std::optional<std::vector<double>> parse_bounds(std::string_view text);

// A YAML mapping of flags; `where` names the file in errors.
Result<GivenFlags> parse_config(std::string_view yaml, const std::string& where);

}  // namespace pome::apps
