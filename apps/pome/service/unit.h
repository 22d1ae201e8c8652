#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pome::apps {

// What keeps services running.
enum class InitSystem { systemd, launchd };

// One service, `pome serve --config FILE`, of one user or of the whole machine.
struct ServiceUnit {
  InitSystem manager = InitSystem::systemd;
  bool system = false;    // of the machine: runs as `user`, starts before anybody logs in
  std::string user = {};  // of a system service
  unsigned user_id = 0;   // of a user's service
  std::filesystem::path program = {};  // this executable
  std::filesystem::path config = {};   // the flags, as YAML
  std::filesystem::path logs = {};     // launchd: the folder of pome.log; systemd has its journal
  std::filesystem::path file = {};     // the unit itself
};

// The places that the manager looks in; `home` and `config_home` are the user's folders.
ServiceUnit service_unit(InitSystem manager, bool system, const std::filesystem::path& home,
                         const std::filesystem::path& config_home);

// The text of `file`. A crash starts the server again, later and later; a wrong setting (exit code
// 2) does not, with systemd.
std::string unit_text(const ServiceUnit& unit);

using ProgramCall = std::vector<std::string>;  // the program and its arguments

// What tells the manager that a unit was written or changed, and starts it at login or boot.
std::vector<ProgramCall> enable_calls(const ServiceUnit& unit);
std::vector<ProgramCall> start_calls(const ServiceUnit& unit);
std::vector<ProgramCall> stop_calls(const ServiceUnit& unit);
std::vector<ProgramCall> status_calls(const ServiceUnit& unit);
// The last lines, and with `follow` what comes.
std::vector<ProgramCall> logs_calls(const ServiceUnit& unit, bool follow);
std::vector<ProgramCall> disable_calls(const ServiceUnit& unit);

}  // namespace pome::apps
