#include "engine/memory/available_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#if defined(__APPLE__)
#include <libproc.h>
#include <mach/mach.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#endif

namespace pome::engine {
namespace {

[[maybe_unused]] std::string read_text(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

[[maybe_unused]] std::optional<int64_t> read_number(const char* path) {
  const std::string text = read_text(path);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) {
    return std::nullopt;  // absent, or "max"
  }
  return value;
}

[[maybe_unused]] int64_t parse_inactive_file(std::string_view stat) {
  constexpr std::string_view kKey = "\ninactive_file ";
  const size_t at = stat.find(kKey);
  int64_t bytes = 0;
  if (at != std::string_view::npos) {
    std::from_chars(stat.data() + at + kKey.size(), stat.data() + stat.size(), bytes);
  }
  return bytes;
}

// What is left under a container's limit; nothing where there is none.
[[maybe_unused]] std::optional<int64_t> container_bytes_left() {
  struct Files {
    const char* limit;
    const char* used;
    const char* stat;
  };
  constexpr Files kFiles[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
       "/sys/fs/cgroup/memory/memory.stat"}};
  for (const Files& files : kFiles) {
    const auto limit = read_number(files.limit);
    const auto used = read_number(files.used);
    if (limit && used) {
      // Cached pages of files count as used and are given back on demand.
      const int64_t cached = parse_inactive_file(read_text(files.stat));
      return std::max<int64_t>(0, *limit - *used + std::clamp<int64_t>(cached, 0, *used));
    }
  }
  return std::nullopt;
}

}  // namespace

int64_t parse_meminfo_available(std::string_view text) {
  constexpr std::string_view kKey = "MemAvailable:";
  const size_t at = text.find(kKey);
  if (at == std::string_view::npos) {
    return 0;
  }
  std::string_view rest = text.substr(at + kKey.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  int64_t kib = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), kib);
  return kib > 0 && kib < std::numeric_limits<int64_t>::max() / 1024 ? kib * 1024 : 0;
}

#if defined(__APPLE__)

int64_t physical_memory_bytes() {
  int64_t bytes = 0;
  size_t size = sizeof(bytes);
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? bytes : 0;
}

int64_t available_memory_bytes() {
  vm_statistics64_data_t pages{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  const kern_return_t status = host_statistics64(mach_host_self(), HOST_VM_INFO64,
                                                 reinterpret_cast<host_info64_t>(&pages), &count);
  if (status != KERN_SUCCESS) {
    return physical_memory_bytes();
  }
  const auto free_pages =
      static_cast<int64_t>(pages.free_count) + pages.inactive_count + pages.purgeable_count;
  return free_pages * static_cast<int64_t>(vm_kernel_page_size);
}

int64_t occupied_memory_bytes() {
  return occupied_memory_bytes(::getpid());
}

int64_t occupied_memory_bytes(int64_t process) {
  rusage_info_v4 usage{};
  const int status = proc_pid_rusage(static_cast<int>(process), RUSAGE_INFO_V4,
                                     reinterpret_cast<rusage_info_t*>(&usage));
  return status == 0 ? static_cast<int64_t>(usage.ri_phys_footprint) : 0;
}

int64_t private_memory_bytes(int64_t process) {
  return occupied_memory_bytes(process);  // a footprint has no clean pages of files
}

#else

int64_t physical_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? int64_t{pages} * page_bytes : 0;
}

int64_t available_memory_bytes() {
  int64_t bytes = parse_meminfo_available(read_text("/proc/meminfo"));
  if (bytes == 0) {
    bytes = physical_memory_bytes();
  }
  if (const auto left = container_bytes_left()) {
    bytes = std::min(bytes, *left);
  }
  return bytes;
}

namespace {

struct ProcessMemory {
  int64_t resident = 0;  // bytes
  int64_t shared = 0;    // of it: pages of files, and memory shared with other processes
};

ProcessMemory statm_of(int64_t process) {
  // "size resident shared …", in pages
  std::istringstream text(read_text(("/proc/" + std::to_string(process) + "/statm").c_str()));
  int64_t size = 0;
  ProcessMemory pages;
  if (!(text >> size >> pages.resident >> pages.shared)) {
    return {};
  }
  const int64_t page_bytes = std::max<int64_t>(0, sysconf(_SC_PAGESIZE));
  return {pages.resident * page_bytes, pages.shared * page_bytes};
}

}  // namespace

int64_t occupied_memory_bytes() {
  return occupied_memory_bytes(::getpid());
}

int64_t occupied_memory_bytes(int64_t process) {
  return statm_of(process).resident;
}

int64_t private_memory_bytes(int64_t process) {
  const ProcessMemory memory = statm_of(process);
  return std::max<int64_t>(0, memory.resident - memory.shared);
}

#endif

}  // namespace pome::engine
