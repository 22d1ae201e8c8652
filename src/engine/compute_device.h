#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine_options.h"
#include "engine/memory/memory_ledger.h"

namespace pome::engine {

// Sets MLX up as the options say: its cache, own kernels, and its default device. For the whole
// process and before anything is allocated, because buffers of a load would otherwise stay in the
// cache. `invalid_argument` where this machine or MLX's library has no such device.
Status set_up_mlx(const EngineOptions& options);

// What this process holds: system memory without what the system can read from files again, and
// MLX's buffers.
struct OwnMemory {
  int64_t system_bytes = 0;
  int64_t mlx_bytes = 0;
  int64_t resident_bytes = 0;  // of the process, with what backs files
};
OwnMemory own_memory();

// MLX's default device as the engine sees it. Engine thread.
struct ComputeDevice {
  bool gpu = false;
  std::string description = {};   // "cpu (AVX3_DL, 2 threads)", "gpu (Apple M3 Max)"
  int64_t available_bytes = 0;    // for weights, KV and work: the GPU's recommended working set,
                                  // or what the system has free where that is less
  int64_t working_set_bytes = 0;  // of a GPU that shares the system's memory; 0: it does not
};

// What the process took since `start` counts as available: the plan has an item for it.
ComputeDevice compute_device(const OwnMemory& start = own_memory());

// What a load has taken since `start`: MLX's buffers on a GPU, else what the process occupies. Call
// it when the weights were used once, because files are mapped.
int64_t loaded_bytes(const OwnMemory& start);

// Of available_bytes, what the plans of other pome processes leave.
int64_t bytes_left_by(const std::vector<LedgerEntry>& others, const ComputeDevice& device);

}  // namespace pome::engine
