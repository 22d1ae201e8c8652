#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "pome/flags/command_line.h"
#include "pome/flags/flag.h"

namespace pome::apps {

// What one benchmark was told: a table of rows like the launch flags', read from a command line. An
// option may be cut to any beginning that no other option of the table shares (--random-input), as
// SGLang's programs take it. Values that are no numbers or too small are kept as the first fault,
// which status() gives.
class BenchOptions {
 public:
  // `launch`: the launch flags are allowed too.
  static Result<BenchOptions> parse(const std::vector<std::string>& words,
                                    const std::vector<Flag>& table, bool launch);

  const CommandLine& line() const { return line_; }
  // One line for each option that has no effect here.
  std::vector<std::string> warnings() const;

  bool given(std::string_view name) const;
  bool on(std::string_view name) const { return given(name); }
  // The last value given, or the row's default.
  std::string text(std::string_view name) const;
  std::vector<std::string> list(std::string_view name) const;
  int32_t whole(std::string_view name, int32_t lowest);
  std::optional<int32_t> whole_if_given(std::string_view name, int32_t lowest);
  std::vector<int32_t> wholes(std::string_view name, int32_t lowest);
  double number(std::string_view name, double lowest, double highest);
  // A JSON object; empty where the option is.
  json::object object(std::string_view name);
  void fail(std::string_view name, std::string_view expected);
  Status status() const { return fault_; }

 private:
  BenchOptions(const std::vector<Flag>& table, CommandLine line);
  const Flag& row(std::string_view name) const;
  int32_t whole_of(std::string_view name, const std::string& text, int32_t lowest);

  std::vector<Flag> table_;
  CommandLine line_;
  Status fault_;
};

// Rows of the table, and its help.
Flag bench_option(std::vector<std::string> names, Kind kind, std::string placeholder,
                  std::string fallback, std::string help, std::vector<std::string> choices = {});
Flag refused_option(std::vector<std::string> names, Kind kind, std::string instead);
Flag idle_option(std::vector<std::string> names, Kind kind, std::string why);
std::string bench_options_help(const std::vector<Flag>& table);

}  // namespace pome::apps
