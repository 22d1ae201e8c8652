#include <fmt/format.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "pome/command.h"
#include "pome/flags/command_line.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/host/report.h"
#include "pome/model/model_defaults.h"
#include "pome/service/unit.h"

extern char** environ;

namespace pome::apps {
namespace {

namespace fs = std::filesystem;

const std::vector<ExtraOption> kExtras = {
    {"--system", "A service of the machine instead of yours: starts at boot; needs root.", false},
    {"--follow", "logs: go on with what comes.", false},
    {"--dry-run", "Print what would be written and called, and do nothing.", false},
};

const std::string kHelp = R"(usage: pome service install [MODEL] [FLAG…]
       pome service start|stop|status|logs|uninstall

Keeps `pome serve` running: systemd on Linux, launchd on macOS. `install` writes the flags into a
file that only you can read, starts the server with you or, with --system, with the machine, and
starts it again when it crashes. Its environment is not your shell's: give flags instead of
variables. `logs` shows what it said.

)";

// Waits until it has ended; its output is ours. The exit code, or 127 where there is no such
// program.
int run_program(const ProgramCall& call) {
  std::vector<char*> arguments;
  for (const std::string& word : call) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) {
    return 127;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
}

Status call_all(const std::vector<ProgramCall>& calls, bool dry_run) {
  for (const ProgramCall& call : calls) {
    if (dry_run) {
      fmt::print("{}\n", fmt::join(call, " "));
      continue;
    }
    const int code = run_program(call);
    if (code == 127) {
      return Error{ErrorCode::unavailable,
                   fmt::format("{} is not there: this system keeps services in another way; "
                               "`pome serve` itself runs under any manager",
                               call[0]),
                   {}};
    }
    if (code != 0) {
      return Error{ErrorCode::internal,
                   fmt::format("`{}` ended with code {}", fmt::join(call, " "), code),
                   {}};
    }
  }
  return {};
}

// Whole or not at all, and readable as `mode` says from the start.
Status write_file(const fs::path& path, const std::string& text, mode_t mode, bool dry_run) {
  if (dry_run) {
    fmt::print("# {}\n{}\n", path.string(), text);
    return {};
  }
  const auto failure = [&](const std::string& why) {
    return Error{ErrorCode::internal, fmt::format("cannot write {}: {}", path.string(), why), {}};
  };
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  const fs::path part = path.string() + ".part";
  fs::remove(part, code);
  const mode_t before = ::umask(0777 & ~mode);
  std::ofstream out(part, std::ios::binary);
  ::umask(before);
  out << text;
  out.close();
  if (!out) {
    return failure(std::strerror(errno));
  }
  fs::rename(part, path, code);
  return code ? Status(failure(code.message())) : Status();
}

// The flags as `serve --config` reads them. A model that is a path stays one from any folder.
std::string config_text(const GivenFlags& flags) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const auto& [name, values] : flags) {
    const Flag* flag = find_flag(name);
    out << YAML::Key << (flag != nullptr ? flag->key() : name.substr(2)) << YAML::Value;
    if (values.empty()) {
      out << "true";
    } else if (values.size() > 1) {
      out << YAML::Flow << YAML::DoubleQuoted << values;
    } else {
      std::error_code code;
      const bool path =
          (name == "--model-path" || name == "--model") && fs::exists(values[0], code);
      out << YAML::DoubleQuoted << (path ? fs::absolute(values[0]).string() : values[0]);
    }
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

fs::path own_program() {
  std::error_code code;
#ifdef __APPLE__
  char path[4096];
  uint32_t bytes = sizeof path;
  return _NSGetExecutablePath(path, &bytes) == 0 ? fs::canonical(path, code) : fs::path();
#else
  return fs::read_symlink("/proc/self/exe", code);
#endif
}

Result<ServiceUnit> unit_of(const CommandLine& line) {
  const passwd* user = ::getpwuid(::getuid());
  const std::string home = environment("HOME").value_or(user != nullptr ? user->pw_dir : "");
  if (home.empty()) {
    return invalid("there is no home directory: set HOME");
  }
#ifdef __APPLE__
  const auto manager = InitSystem::launchd;
#else
  const auto manager = InitSystem::systemd;
#endif
  const bool system = line.has("system");
  if (system && ::geteuid() != 0 && !line.has("dry-run")) {
    return invalid("--system needs root: run it with sudo");
  }
  ServiceUnit unit = service_unit(manager, system, home,
                                  environment("XDG_CONFIG_HOME").value_or(home + "/.config"));
  // Behind sudo, the service is that of who called it.
  unit.user = environment("SUDO_USER").value_or(user != nullptr ? user->pw_name : "root");
  unit.user_id = static_cast<unsigned>(::getuid());
  unit.program = own_program();
  return unit;
}

Status install(const CommandLine& line, const ServiceUnit& unit, const GivenFlags& flags) {
  const bool dry_run = line.has("dry-run");
  // Before anything is written: the server would refuse them each time that it is started.
  auto settings = Settings::resolve(flags, [](std::string_view) { return std::nullopt; });
  if (!settings) {
    return settings.error();
  }
  if (!dry_run && fs::exists(unit.file)) {
    (void)call_all(stop_calls(unit), false);  // the one that is replaced may not be running
  }
  // Keys and tokens may be among the flags.
  POME_TRY(write_file(unit.config, config_text(flags), 0600, dry_run));
  POME_TRY(write_file(unit.file, unit_text(unit), 0644, dry_run));
  if (!dry_run && !unit.logs.empty()) {
    std::error_code code;
    fs::create_directories(unit.logs, code);
  }
  POME_TRY(call_all(enable_calls(unit), dry_run));
  POME_TRY(call_all(start_calls(unit), dry_run));
  if (!dry_run) {
    fmt::print("{} is installed with the flags in {}; `pome service logs` shows what it says\n",
               unit.file.string(), unit.config.string());
  }
  return {};
}

Status uninstall(const ServiceUnit& unit, bool dry_run) {
  const Status stopped = call_all(disable_calls(unit), dry_run);
  if (dry_run) {
    fmt::print("rm {} {}\n", unit.file.string(), unit.config.string());
    return {};
  }
  std::error_code code;
  const bool was_there = fs::remove(unit.file, code);
  fs::remove(unit.config, code);
  if (!was_there) {
    return Error{ErrorCode::not_found, "there is no service of pome here", {}};
  }
  return stopped;
}

Status run_verb(const std::string& verb, const CommandLine& line, const ServiceUnit& unit,
                const GivenFlags& flags) {
  const bool dry_run = line.has("dry-run");
  if (verb == "install") {
    return install(line, unit, flags);
  }
  if (verb == "uninstall") {
    return uninstall(unit, dry_run);
  }
  if (!dry_run && !fs::exists(unit.file)) {
    return Error{ErrorCode::not_found,
                 "there is no service of pome here: `pome service install MODEL` makes one",
                 {}};
  }
  if (verb == "start") {
    return call_all(start_calls(unit), dry_run);
  }
  if (verb == "stop") {
    return call_all(stop_calls(unit), dry_run);
  }
  if (verb == "status") {
    return call_all(status_calls(unit), dry_run);
  }
  return call_all(logs_calls(unit, line.has("follow")), dry_run);
}

}  // namespace

int service_command(const std::vector<std::string>& words) {
  auto line = parse_command_line(words, true, kExtras, 2);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all) {
    return show_usage(kHelp + extras_help(kExtras) + flags_help(line->help_all), true);
  }
  if (line->positionals.empty()) {
    return show_usage(kHelp, false);
  }
  const std::string verb = line->positionals.front();
  line->positionals.erase(line->positionals.begin());
  constexpr std::string_view kVerbs[] = {"install", "start", "stop", "status", "logs", "uninstall"};
  if (std::find(std::begin(kVerbs), std::end(kVerbs), verb) == std::end(kVerbs)) {
    return misused(
        invalid(fmt::format("[service] expected {}, got '{}'", fmt::join(kVerbs, ", "), verb)));
  }
  if (verb != "install" && (!line->positionals.empty() || !line->flags.empty())) {
    return misused(invalid(fmt::format("[service] {} takes no model and no flags", verb)));
  }
  const auto unit = unit_of(*line);
  if (!unit) {
    return misused(unit.error());
  }
  const Status done = run_verb(verb, *line, *unit, with_model(*line));
  if (!done) {
    return done.error().code == ErrorCode::invalid_argument ? misused(done.error())
                                                            : failed(done.error());
  }
  return 0;
}

}  // namespace pome::apps
