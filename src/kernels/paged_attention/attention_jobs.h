#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/paged_attention/paged_attention_cpu.h"

// How attention over a ragged batch is cut into pieces of work: by its shape alone.
namespace pome::kernels {

// Queries of one job at most.
inline constexpr int kJobQueries = 64;
// Rows of at most this many tokens have their splits shared out over the threads.
inline constexpr int64_t kSplitRowTokens = 32;

// Some queries of one row and one key head. Query i of the row is head i % group of token i /
// group.
struct AttentionJob {
  int64_t row = 0;
  int64_t kv_head = 0;
  int64_t first_token = 0;     // of the row, in the batch
  int64_t first_position = 0;  // of the row's first token
  int64_t begin = 0;           // queries [begin, end) of the row
  int64_t end = 0;
  int64_t split = 0;        // for a split job
  int64_t first_state = 0;  // where its partial states go

  int count() const { return static_cast<int>(end - begin); }
  // Index of the job's i-th query among the batch's T · q_heads.
  int64_t query_index(const PagedAttention& a, int i) const {
    const int64_t query = begin + i;
    const int64_t token = first_token + query / a.group();
    return token * a.q_heads + kv_head * a.group() + query % a.group();
  }
  int64_t position(const PagedAttention& a, int i) const {
    return first_position + (begin + i) / a.group();
  }
  // From the first query's window to the last query's own position.
  KeyRange seen_by_all(const PagedAttention& a) const {
    return {a.seen_from(position(a, 0)).begin, a.seen_from(position(a, count() - 1)).end};
  }
};

// One query of a split row: `splits` partial states, `stride` states apart.
struct SplitMerge {
  int64_t query = 0;
  int64_t first_state = 0;
  int64_t splits = 0;
  int64_t stride = 0;
};

struct AttentionJobs {
  std::vector<AttentionJob> whole;
  std::vector<AttentionJob> split;
  std::vector<SplitMerge> merges;
  std::vector<KeyRange> unowned;  // tokens of no row
  int64_t split_states = 0;
};

// Floats of one partial state: the largest score, the sum of weights, the weighted values.
inline int64_t partial_floats(const PagedAttention& a) {
  return a.k.dim + 2;
}

// Reads row_offsets and kv_lengths; offsets and lengths outside the batch and the table are cut to
// them.
AttentionJobs list_jobs(const PagedAttention& a);

}  // namespace pome::kernels
