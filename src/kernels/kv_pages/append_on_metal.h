#pragma once

#include <functional>
#include <string>

#include "kernels/kv_pages/kv_pages.h"

namespace pome::kernels {

// The append of a step as one Metal kernel that writes into the pool's own buffers. Whether pools
// like this one get it: the GPU is Metal's, own kernels are on, and the trial found no fault. The
// trial runs once for each kind of pool; a fault is logged, and plain operations take over.
bool appends_on_metal(const KvPages& pages);

// Requires appends_on_metal(). k and v f32.
KvPages append_on_metal(const KvPages& pages, const mx::array& k, const mx::array& v,
                        const mx::array& slots);

// What keeps an append from being taken for pools with the numbers and heads of `like`, or "": two
// steps in flight to a small pool must come out byte for byte as the twin's, in the buffers that
// went in.
using AppendBody = std::function<KvPages(const KvPages& pages, const mx::array& k,
                                         const mx::array& v, const mx::array& slots)>;
std::string append_fault(const KvPages& like, const AppendBody& append);

}  // namespace pome::kernels
