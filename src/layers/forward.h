#pragma once

#include <mlx/mlx.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tensor/mlx.h"

namespace pome::kvpool {
class KvPool;
}

namespace pome::layers {

// One cache group's view of a step. Device arrays drive the kernels; host integers only bound
// grids.
struct GroupForward {
  mx::array page_table;  // [R, P] int32: page of each block of a row's sequence, padded with the
                         // sink page 0
  mx::array slots;       // [T] int32: page · page_tokens + offset where each token's K and V go
};

// Everything a layer needs to know about the step beside its activations: one ragged batch of R
// rows and T tokens, prefill and decode together. Layers are called as (x [T, …], const Forward&).
// Built by the engine, const in use.
struct Forward {
  mx::array tokens;          // [T] int32
  mx::array positions;       // [T] int32: index in the sequence, the KV position
  mx::array rope_positions;  // [P, T] int32: P = 1, or 3 for multi-axis rope
  mx::array row_offsets;    // [R + 1] int32: row r owns tokens [row_offsets[r], row_offsets[r + 1])
  mx::array kv_lengths;     // [R] int32: tokens in the cache once this step has appended
  mx::array adapter_slots;  // [T] int32: 0 is "no adapter"
  mx::array output_tokens;  // [O] int32: the tokens whose hidden state goes on to logits
  std::vector<GroupForward> groups;

  int32_t row_count = 0;
  int32_t token_count = 0;
  int32_t output_count = 0;
  std::vector<int32_t> row_tokens = {};  // [R], on the host
  int32_t kv_length_max = 0;

  // Where K and V live. Appends return the pool's next handle, so that reads are ordered after
  // them.
  kvpool::KvPool* pool = nullptr;

  // Sees named intermediates ("embeddings", "layers.3", "norm", "logits") as the graph is built;
  // empty in service. Parity tests compare them with reference tensors.
  std::function<void(std::string_view name, const mx::array& x)> trace;
};

}  // namespace pome::layers
