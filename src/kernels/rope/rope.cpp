#include "kernels/rope/rope.h"

namespace pome::kernels {

mx::array rope(const mx::array& x, const mx::array& positions, const RopeOptions& options) {
  return reference::rope(x, positions, options);
}

RopedQuery rope_append(const mx::array& qkv, const mx::array& positions, const KvPages& pages,
                       const mx::array& slots, const RopeOptions& options,
                       const std::optional<HeadNorms>& norms) {
  return reference::rope_append(qkv, positions, pages, slots, options, norms);
}

}  // namespace pome::kernels
