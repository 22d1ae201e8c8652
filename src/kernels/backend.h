#pragma once

#include <string>

// Which body an op of this room gets. Every op is a function on arrays: on a CPU stream it builds
// an own primitive, otherwise (a GPU, or own kernels switched off) it builds the same arithmetic
// from plain MLX operations.
namespace pome::kernels {

// Process-wide, before or between steps; on at the start. Off is a supported mode
// (--disable-own-kernels).
void set_own_kernels_enabled(bool enabled);
bool own_kernels_enabled();

// True when an op that is built now on the default device becomes an own CPU primitive.
bool own_cpu_kernels();

// Whether the default device is the CPU, the only one with own kernels.
bool computes_on_cpu();

// The instruction set that the CPU primitives were dispatched to on this machine: "AVX3_DL",
// "AVX2", "NEON", …
std::string cpu_target_name();

}  // namespace pome::kernels
