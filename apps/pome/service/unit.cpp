#include "pome/service/unit.h"

#include <fmt/format.h>

namespace pome::apps {
namespace {

constexpr const char* kLabel = "pome.serve";  // launchd's name of the service

// systemd splits at spaces and expands % and $.
std::string systemd_word(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    } else if (c == '%' || c == '$') {
      out += c;
    }
    out += c;
  }
  return out + "\"";
}

std::string xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string systemd_text(const ServiceUnit& unit) {
  return fmt::format(
      R"([Unit]
Description=pome serves a language model
After=network.target
StartLimitIntervalSec=600
StartLimitBurst=6

[Service]
Type=exec
ExecStart={} serve --config {}
{}Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2
# Running answers are finished first.
TimeoutStopSec=60

[Install]
WantedBy={}
)",
      systemd_word(unit.program.string()), systemd_word(unit.config.string()),
      unit.system ? fmt::format("User={}\n", unit.user) : std::string(),
      unit.system ? "multi-user.target" : "default.target");
}

std::string launchd_text(const ServiceUnit& unit) {
  const std::string user =
      unit.system ? fmt::format("  <key>UserName</key>\n  <string>{}</string>\n", xml(unit.user))
                  : std::string();
  return fmt::format(
      R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{}</string>
  <key>ProgramArguments</key>
  <array>
    <string>{}</string>
    <string>serve</string>
    <string>--config</string>
    <string>{}</string>
    <string>--log-file</string>
    <string>{}</string>
  </array>
{}  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>10</integer>
  <key>ExitTimeOut</key>
  <integer>60</integer>
  <key>ProcessType</key>
  <string>Interactive</string>
</dict>
</plist>
)",
      kLabel, xml(unit.program.string()), xml(unit.config.string()),
      xml((unit.logs / "pome.log").string()), user);
}

ProgramCall systemctl(const ServiceUnit& unit, std::vector<std::string> words) {
  ProgramCall call = {"systemctl"};
  if (!unit.system) {
    call.push_back("--user");
  }
  call.insert(call.end(), words.begin(), words.end());
  return call;
}

std::string launchd_domain(const ServiceUnit& unit) {
  return unit.system ? std::string("system") : fmt::format("gui/{}", unit.user_id);
}

std::string launchd_target(const ServiceUnit& unit) {
  return fmt::format("{}/{}", launchd_domain(unit), kLabel);
}

}  // namespace

ServiceUnit service_unit(InitSystem manager, bool system, const std::filesystem::path& home,
                         const std::filesystem::path& config_home) {
  const bool launchd = manager == InitSystem::launchd;
  ServiceUnit unit{.manager = manager, .system = system};
  unit.config =
      (system ? std::filesystem::path("/etc/pome") : config_home / "pome") / "service.yaml";
  if (launchd) {
    const std::filesystem::path library =
        system ? std::filesystem::path("/Library") : home / "Library";
    unit.logs = library / "Logs" / "pome";
    unit.file =
        library / (system ? "LaunchDaemons" : "LaunchAgents") / fmt::format("{}.plist", kLabel);
  } else {
    unit.file =
        (system ? std::filesystem::path("/etc/systemd/system") : config_home / "systemd" / "user") /
        "pome.service";
  }
  return unit;
}

std::string unit_text(const ServiceUnit& unit) {
  return unit.manager == InitSystem::launchd ? launchd_text(unit) : systemd_text(unit);
}

std::vector<ProgramCall> enable_calls(const ServiceUnit& unit) {
  if (unit.manager == InitSystem::launchd) {
    return {};  // launchd reads the folder by itself
  }
  std::vector<ProgramCall> calls = {systemctl(unit, {"daemon-reload"}),
                                    systemctl(unit, {"enable", "pome.service"})};
  if (!unit.system) {
    calls.push_back({"loginctl", "enable-linger"});  // runs also while the user is not logged in
  }
  return calls;
}

std::vector<ProgramCall> start_calls(const ServiceUnit& unit) {
  if (unit.manager == InitSystem::launchd) {
    return {{"launchctl", "bootstrap", launchd_domain(unit), unit.file.string()}};
  }
  return {systemctl(unit, {"start", "pome.service"})};
}

std::vector<ProgramCall> stop_calls(const ServiceUnit& unit) {
  if (unit.manager == InitSystem::launchd) {
    return {{"launchctl", "bootout", launchd_target(unit)}};
  }
  return {systemctl(unit, {"stop", "pome.service"})};
}

std::vector<ProgramCall> status_calls(const ServiceUnit& unit) {
  if (unit.manager == InitSystem::launchd) {
    return {{"launchctl", "print", launchd_target(unit)}};
  }
  return {systemctl(unit, {"--no-pager", "status", "pome.service"})};
}

std::vector<ProgramCall> logs_calls(const ServiceUnit& unit, bool follow) {
  if (unit.manager == InitSystem::launchd) {
    const std::string file = (unit.logs / "pome.log").string();
    return {follow ? ProgramCall{"tail", "-n", "100", "-F", file}
                   : ProgramCall{"tail", "-n", "100", file}};
  }
  ProgramCall call = {"journalctl"};
  if (!unit.system) {
    call.push_back("--user");
  }
  call.insert(call.end(), {"--no-pager", "-n", "100", "-u", "pome.service"});
  if (follow) {
    call.push_back("-f");
  }
  return {call};
}

std::vector<ProgramCall> disable_calls(const ServiceUnit& unit) {
  if (unit.manager == InitSystem::launchd) {
    return stop_calls(unit);
  }
  return {systemctl(unit, {"disable", "--now", "pome.service"})};
}

}  // namespace pome::apps
