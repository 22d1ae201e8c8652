#pragma once

#include <cstdint>
#include <string>

namespace pome::engine {

// MLX's default device as the engine sees it. Engine thread, before and after the model is loaded.
struct ComputeDevice {
  bool gpu = false;
  std::string description = {};  // "cpu (AVX3_DL, 2 threads)", "gpu (Apple M3 Max)"
  int64_t available_bytes = 0;   // for weights, KV and work: the GPU's recommended working set,
                                 // or what the system has free where that is less
};

ComputeDevice compute_device();

}  // namespace pome::engine
