#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/memory/memory_ledger.h"

namespace pome::engine {

// MLX's default device as the engine sees it. Engine thread, before and after the model is loaded.
struct ComputeDevice {
  bool gpu = false;
  std::string description = {};   // "cpu (AVX3_DL, 2 threads)", "gpu (Apple M3 Max)"
  int64_t available_bytes = 0;    // for weights, KV and work: the GPU's recommended working set,
                                  // or what the system has free where that is less
  int64_t working_set_bytes = 0;  // of a GPU that shares the system's memory; 0: it does not
};

ComputeDevice compute_device();

// Of available_bytes, what the plans of other pome processes leave.
int64_t bytes_left_by(const std::vector<LedgerEntry>& others, const ComputeDevice& device);

}  // namespace pome::engine
