#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace pome::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger> make_logger(const char* pattern) {
  auto made = std::make_shared<spdlog::logger>(
      "pome", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  made->set_pattern(pattern);
  return made;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance =
      make_logger("[%Y-%m-%d %H:%M:%S.%e] %^%l%$ %v");
  return *instance;
}

spdlog::logger& plain_logger() {
  static const std::shared_ptr<spdlog::logger> instance = make_logger("%v");
  return *instance;
}

}  // namespace

Result<Level> parse_level(std::string_view name) {
  if (name == "debug" || name == "trace") {
    return Level::debug;
  }
  if (name == "info") {
    return Level::info;
  }
  if (name == "warning" || name == "warn") {
    return Level::warning;
  }
  if (name == "error" || name == "critical") {
    return Level::error;
  }
  return invalid(
      fmt::format("[log] unknown level '{}' (supported: debug, info, warning, error)", name));
}

void set_level(Level level) {
  logger().set_level(to_spdlog(level));
}

bool enabled(Level level) {
  return logger().should_log(to_spdlog(level));
}

void write(Level level, std::string_view line) {
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

void plain(std::string_view line) {
  if (enabled(Level::info)) {
    plain_logger().info(spdlog::string_view_t(line.data(), line.size()));
  }
}

}  // namespace pome::log
