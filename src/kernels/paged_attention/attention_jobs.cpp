#include "kernels/paged_attention/attention_jobs.h"

namespace pome::kernels {
namespace {

// A short row over many keys: one job a split, and a merge for each query.
void add_split_jobs(const PagedAttention& a, const AttentionJob& job, AttentionJobs& jobs) {
  const KeyRange keys = job.seen_by_all(a);
  const int64_t first = keys.begin / kSplitKeys;
  const int64_t splits = (keys.end - 1) / kSplitKeys - first + 1;
  const int64_t first_state = jobs.split_states;
  for (int64_t s = 0; s < splits; ++s) {
    AttentionJob part = job;
    part.split = first + s;
    part.first_state = first_state + s * job.count();
    jobs.split.push_back(part);
  }
  for (int i = 0; i < job.count(); ++i) {
    jobs.merges.push_back({job.query_index(a, i), first_state + i, splits, job.count()});
  }
  jobs.split_states += splits * job.count();
}

void add_row(const PagedAttention& a, int64_t row, KeyRange tokens, AttentionJobs& jobs) {
  const int64_t count = tokens.end - tokens.begin;
  const int64_t kv_length =
      std::clamp<int64_t>(a.kv_lengths[row], 0, a.table_pages * a.k.page_tokens);
  for (int64_t head = 0; head < a.k.heads; ++head) {
    const int64_t queries = count * a.group();
    for (int64_t begin = 0; begin < queries; begin += kJobQueries) {
      AttentionJob job;
      job.row = row;
      job.kv_head = head;
      job.first_token = tokens.begin;
      job.first_position = kv_length - count;
      job.begin = begin;
      job.end = std::min<int64_t>(begin + kJobQueries, queries);
      const KeyRange keys = job.seen_by_all(a);
      const bool one_split = keys.end <= (keys.begin / kSplitKeys + 1) * kSplitKeys;
      if (count > kSplitRowTokens || one_split) {
        jobs.whole.push_back(job);
      } else {
        add_split_jobs(a, job, jobs);
      }
    }
  }
}

}  // namespace

AttentionJobs list_jobs(const PagedAttention& a) {
  AttentionJobs jobs;
  int64_t next = 0;
  for (int64_t row = 0; row < a.rows; ++row) {
    const int64_t begin = std::clamp<int64_t>(a.row_offsets[row], next, a.tokens);
    const int64_t end = std::clamp<int64_t>(a.row_offsets[row + 1], begin, a.tokens);
    if (begin > next) {
      jobs.unowned.push_back({next, begin});
    }
    add_row(a, row, {begin, end}, jobs);
    next = end;
  }
  if (next < a.tokens) {
    jobs.unowned.push_back({next, a.tokens});
  }
  return jobs;
}

}  // namespace pome::kernels
