#pragma once

#include <cstdint>
#include <vector>

// What a model keeps per token or per sequence. Allocator, StepPlan and memory plan are indexed by
// group.
namespace pome::kvcache {

enum class GroupKind {
  full,    // keys and values of every token
  window,  // keys and values of the last `window` tokens
  cross,   // an encoder's keys and values, written once
  state,   // one recurrent state per sequence
};

struct CacheGroup {
  GroupKind kind = GroupKind::full;
  int32_t window = 0;           // tokens, for GroupKind::window
  std::vector<int32_t> layers;  // model layers whose cache lives here, in order
  int32_t kv_heads = 0;
  int32_t head_dim = 0;        // of keys and values alike
  int64_t bytes_per_page = 0;  // all layers of the group; per slot for `state`
};

struct CacheSpec {
  int32_t page_tokens = 16;
  // Recurrent states are kept for reuse at multiples of this; a multiple of page_tokens.
  int32_t checkpoint_tokens = 512;
  std::vector<CacheGroup> groups;
};

}  // namespace pome::kvcache
