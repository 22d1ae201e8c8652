#include "base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <utility>

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

constexpr const char* kPattern = "[%Y-%m-%d %H:%M:%S.%e] %^%l%$ %v";
constexpr const char* kPlainPattern = "%v";

using FileSink = spdlog::sinks::rotating_file_sink_mt;

// Puts time and level before a line, in a file that others write plain lines to.
class StampedLines : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit StampedLines(std::shared_ptr<FileSink> file) : file_(std::move(file)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    spdlog::memory_buf_t text;
    formatter_->format(line, text);
    const std::string_view stamped(text.data(), text.size());
    const std::string_view whole = stamped.substr(0, stamped.find_last_not_of("\r\n") + 1);
    file_->log({line.logger_name, line.level, {whole.data(), whole.size()}});
  }
  void flush_() override { file_->flush(); }

 private:
  std::shared_ptr<FileSink> file_;
};

std::shared_ptr<spdlog::logger> make_logger(const char* pattern) {
  auto made = std::make_shared<spdlog::logger>(
      "pome", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  made->set_pattern(pattern);
  return made;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = make_logger(kPattern);
  return *instance;
}

spdlog::logger& plain_logger() {
  static const std::shared_ptr<spdlog::logger> instance = make_logger(kPlainPattern);
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

Status to_file(const std::string& path) try {
  constexpr size_t kFileBytesMax = size_t{10} << 20;
  constexpr size_t kOlderFiles = 4;
  const auto file = std::make_shared<FileSink>(path, kFileBytesMax, kOlderFiles);
  file->set_pattern(kPlainPattern);
  const auto stamped = std::make_shared<StampedLines>(file);
  stamped->set_pattern(kPattern);
  logger().sinks() = {stamped};
  plain_logger().sinks() = {file};
  // A line is in the file when the process dies after it.
  logger().flush_on(spdlog::level::debug);
  plain_logger().flush_on(spdlog::level::debug);
  return {};
} catch (const spdlog::spdlog_ex& error) {
  return invalid(fmt::format("[log] cannot write {}: {}", path, error.what()));
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
