#pragma once

#include <cstdint>

#include "kernels/activation/activation.h"

namespace pome::kernels {

// `rows` rows of `features` gates and ups, `stride` floats apart each, to out [rows, features]. On
// the calling thread and the pool.
void run_gated(const float* gate, const float* up, int64_t stride, int64_t rows, int64_t features,
               GatedActivation activation, float* out);

}  // namespace pome::kernels
