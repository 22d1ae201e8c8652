#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pome::apps {

// What this machine is, as far as its system says; empty or 0 where it does not.
struct Machine {
  std::string system;  // "macOS 15.1 (24B83)", "Debian GNU/Linux 12 (bookworm), Linux 6.1.0-18"
  std::string architecture;  // "arm64", "x86_64"
  std::string chip;          // "Apple M3 Max"
  int cores = 0;             // that this process may use
  int performance_cores = 0;
  int efficiency_cores = 0;
  int64_t memory_bytes = 0;
  int64_t memory_available_bytes = 0;
  int64_t disk_free_bytes = 0;  // where models are kept
};

// `models` is the folder whose disk counts; it need not exist yet.
Machine this_machine(const std::string& models);

// What MLX and pome's kernels make of it.
struct Accelerator {
  std::string mlx_version;  // empty: built without MLX
  std::string backend;      // "cpu (AVX3_DL, 2 threads)", "gpu (Apple M3 Max)"
  std::string gpu;          // name; empty: none that MLX can use
  std::string gpu_family;   // Metal: "applegpu_g15s"; CUDA: "sm_90"
  int gpu_cores = 0;
  int64_t recommended_working_set_bytes = 0;
};

Accelerator this_accelerator();

// Gives memory that the program has freed back to the system, where the C library keeps it.
void return_freed_memory();

// The first match of `key` in "key: value" or "key=value" lines, without quotes; for /proc and /etc
// files.
std::string value_in(const std::string& text, const std::string& key, char separator);

}  // namespace pome::apps
