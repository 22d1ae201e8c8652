#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace pome::log {

enum class Level { debug, info, warning, error };

// Accepts SGLang's names: debug, info, warning (warn), error, critical.
Result<Level> parse_level(std::string_view name);

// Lines go to standard error; standard output belongs to what the user asked for. Any thread.
void set_level(Level level);
// From now on into a file, which becomes FILE.1, FILE.2, … when it has 10 MiB; five of them are
// kept. Before there are other threads.
Status to_file(const std::string& path);
bool enabled(Level level);
void write(Level level, std::string_view line);
// The line alone, without time and level, for lines that have a form of their own. Like info.
void plain(std::string_view line);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) {
    write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pome::log
