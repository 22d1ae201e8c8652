#include "kernels/paged_attention/paged_attention.h"

namespace pome::kernels {

KvPages paged_append(const KvPages& pages, const mx::array& k, const mx::array& v,
                     const mx::array& slots) {
  return reference::paged_append(pages, k, v, slots);
}

mx::array paged_attention(const mx::array& q, const KvPages& pages, const PagedRows& rows,
                          const AttentionOptions& options) {
  return reference::paged_attention(q, pages, rows, options);
}

}  // namespace pome::kernels
