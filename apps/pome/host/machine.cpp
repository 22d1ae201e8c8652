#include "pome/host/machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "engine/memory/available_memory.h"
#include "hub/transfer/text.h"
#ifdef __APPLE__
#include <sys/sysctl.h>
#else
#include <sched.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace pome::apps {
namespace {

int64_t free_bytes(std::filesystem::path folder) {
  std::error_code error;
  while (!std::filesystem::exists(folder, error) && folder.has_parent_path() &&
         folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  const auto space = std::filesystem::space(folder, error);
  return error ? 0 : static_cast<int64_t>(space.available);
}

#ifdef __APPLE__
std::string sysctl_text(const char* name) {
  size_t bytes = 0;
  if (::sysctlbyname(name, nullptr, &bytes, nullptr, 0) != 0 || bytes == 0) {
    return {};
  }
  std::string text(bytes, '\0');
  if (::sysctlbyname(name, text.data(), &bytes, nullptr, 0) != 0) {
    return {};
  }
  return text.c_str();
}

int sysctl_number(const char* name) {
  int value = 0;
  size_t bytes = sizeof(value);
  return ::sysctlbyname(name, &value, &bytes, nullptr, 0) == 0 ? value : 0;
}

void describe(Machine& machine) {
  machine.system =
      "macOS " + sysctl_text("kern.osproductversion") + " (" + sysctl_text("kern.osversion") + ")";
  machine.chip = sysctl_text("machdep.cpu.brand_string");
  machine.cores = sysctl_number("hw.activecpu");
  machine.performance_cores = sysctl_number("hw.perflevel0.logicalcpu");
  machine.efficiency_cores = sysctl_number("hw.perflevel1.logicalcpu");
}
#else
void describe(Machine& machine) {
  struct utsname names {};
  ::uname(&names);
  const std::string release = hub::read_small_file("/etc/os-release", 1 << 16).value_or("");
  const std::string name = value_in(release, "PRETTY_NAME", '=');
  machine.system =
      (name.empty() ? std::string() : name + ", ") + names.sysname + " " + names.release;
  const std::string cpu = hub::read_small_file("/proc/cpuinfo", 8 << 20).value_or("");
  machine.chip = value_in(cpu, "model name", ':');
  if (machine.chip.empty()) {
    machine.chip = value_in(cpu, "CPU part", ':');
  }
  cpu_set_t allowed;
  machine.cores = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                      ? CPU_COUNT(&allowed)
                      : static_cast<int>(std::thread::hardware_concurrency());
}
#endif

}  // namespace

std::string value_in(const std::string& text, const std::string& key, char separator) {
  for (const auto& line : hub::split(text, '\n')) {
    const size_t mark = line.find(separator);
    if (mark == std::string::npos || hub::trimmed(line.substr(0, mark)) != key) {
      continue;
    }
    std::string value = hub::trimmed(line.substr(mark + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    return value;
  }
  return {};
}

void return_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

Machine this_machine(const std::string& models) {
  Machine machine;
  struct utsname names {};
  if (::uname(&names) == 0) {
    machine.architecture = names.machine;
  }
  describe(machine);
  machine.memory_bytes = engine::physical_memory_bytes();
  machine.memory_available_bytes = engine::available_memory_bytes();
  machine.disk_free_bytes = free_bytes(std::filesystem::absolute(models));
  return machine;
}

}  // namespace pome::apps
