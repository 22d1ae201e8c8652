#pragma once

#include <cstdint>
#include <string_view>

namespace pome::engine {

// Bytes that a new process may use now: free and reclaimable memory of the machine, or what its
// container has left where that is less. 0 when the system does not say.
int64_t available_memory_bytes();

// Bytes of memory that the machine has.
int64_t physical_memory_bytes();

// Bytes of memory that this process occupies now (Linux: resident, macOS: the footprint that the
// system's limits count). 0 when the system does not say.
int64_t occupied_memory_bytes();
// The same of another process of this user; 0 when it is gone.
int64_t occupied_memory_bytes(int64_t process);

// Of a process of this user, without the pages of files that it mapped: those count as available to
// everybody. 0 when it is gone.
int64_t private_memory_bytes(int64_t process);

// The value of "MemAvailable" in the text of /proc/meminfo, in bytes; 0 when it is not there.
int64_t parse_meminfo_available(std::string_view text);

}  // namespace pome::engine
