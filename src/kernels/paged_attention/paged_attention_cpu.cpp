#include "kernels/paged_attention/paged_attention_cpu.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/counters.h"
#include "kernels/highway_targets.h"
#include "kernels/paged_attention/attention_jobs.h"
#include "kernels/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/paged_attention/paged_attention_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/paged_attention/block_inl.h"
#include "kernels/paged_attention/staged_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

// Jobs of more queries than this stage a block once for all of them.
inline constexpr int kStagedQueries = 2 * kQueriesTogether;

// The queries of one job, scaled and padded, and their states.
struct JobScratch {
  HWY_ALIGN float q[kJobQueries][kHeadStride];
  HWY_ALIGN float scores[kJobQueries][kSplitKeys];
  StagedBlock staged;
  int64_t positions[kJobQueries];
  Span spans[kJobQueries];  // of the split at hand
  SoftmaxState split[kJobQueries];
  SoftmaxState whole[kJobQueries];
};

JobScratch& scratch() {
  static thread_local const auto scratch = std::make_unique<JobScratch>();
  return *scratch;
}

// to[c] = from[c] · factor for c < dim; zeros up to the next whole vector.
HWY_INLINE void scale_into(const float* from, int dim, float factor, float* to) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  int c = 0;
  for (; c + lanes <= dim; c += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, from + c), hn::Set(d, factor)), d, to + c);
  }
  if (c < dim) {
    const auto tail = load_tail(d, from + c, static_cast<size_t>(dim - c));
    hn::StoreU(hn::Mul(tail, hn::Set(d, factor)), d, to + c);
  }
}

void load_queries(const PagedAttention& a, const AttentionJob& job, JobScratch& s) {
  // Scores are in units of log 2, but a soft cap wants them as they are.
  const float scale = a.softcap > 0.0f ? a.scale : a.scale * kLog2E;
  for (int i = 0; i < job.count(); ++i) {
    scale_into(a.q + job.query_index(a, i) * a.k.dim, static_cast<int>(a.k.dim), scale, s.q[i]);
    if (a.k.rotated) {
      rotate_head(s.q[i], static_cast<int>(a.k.dim), Rotated::query);
    }
    s.positions[i] = job.position(a, i);
  }
}

// Where the span's keys or values lie: the job's head of positions first + begin, ….
template <class Rows>
void find_rows(const PageMemory& pages, const int32_t* table, int64_t head, int64_t first,
               Span span, Rows& rows) {
  const auto* data = static_cast<const uint8_t*>(pages.data) + head * pages.head_bytes;
  int64_t block = (first + span.begin) / pages.page_tokens;
  int64_t offset = (first + span.begin) % pages.page_tokens;
  for (int key = span.begin; key < span.end; ++block, offset = 0) {
    const int64_t page = table[block];
    // A page outside the pool is a caller's bug; it must not become a wild read.
    const int64_t known = page >= 0 && page < pages.pages ? page : 0;
    const uint8_t* row = data + (known * pages.page_tokens + offset) * pages.token_bytes();
    const int end = static_cast<int>(std::min<int64_t>(span.end, key + pages.page_tokens - offset));
    for (; key < end; ++key, row += pages.token_bytes()) {
      rows.set(key, row);
    }
  }
  rows.prepare(span.begin, span.end);
}

// In place of rows that are read: asks for their cache lines.
struct PrefetchedRows {
  int64_t bytes;
  void set(int, const uint8_t* row) const {
    for (int64_t at = 0; at < bytes; at += 64) {
      __builtin_prefetch(row + at);
    }
  }
  void prepare(int, int) const {}
};

// A job's queries against the keys of one split. Rows: how heads are stored.
template <class Rows>
class SplitPass {
 public:
  SplitPass(const PagedAttention& a, const AttentionJob& job, int64_t split, JobScratch& s)
      : a_(a),
        job_(job),
        s_(s),
        table_(a.page_table + job.row * a.table_pages),
        first_key_(split * kSplitKeys),
        dim_(static_cast<int>(a.k.dim)),
        count_(job.count()),
        staged_(count_ > kStagedQueries) {
    for (int i = 0; i < count_; ++i) {
      const KeyRange seen = a.seen_from(s.positions[i]);
      s.spans[i] = {within_split(seen.begin), within_split(seen.end)};
    }
    all_ = union_of(s.spans, count_);
  }

  // Into the job's split states; `total` stays 0 where a query sees nothing of the split.
  void run() {
    for_each_block(a_.k, [&](const Rows& k, int first, Span span) { score(k, first, span); });
    for (int i = 0; i < count_; i += kQueriesTogether) {
      weigh(i);
    }
    for_each_block(a_.v, [&](const Rows& v, int first, Span span) { add_values(v, first, span); });
  }

 private:
  int within_split(int64_t position) const {
    return static_cast<int>(std::clamp<int64_t>(position - first_key_, 0, kSplitKeys));
  }
  int together(int i) const { return std::min(kQueriesTogether, count_ - i); }

  template <class Body>
  void for_each_block(const PageMemory& half, Body body) {
    for (int first = all_.begin / kBlockKeys * kBlockKeys; first < all_.end; first += kBlockKeys) {
      const Span span = all_.in_block(first);
      Rows rows(half);
      find_rows(half, table_, job_.kv_head, first_key_ + first, span, rows);
      if (!staged_) {
        prefetch(half, first + kBlockKeys);
      }
      body(rows, first, span);
    }
  }

  // Few queries do not keep the processor busy until the next block has come from memory.
  void prefetch(const PageMemory& half, int first) {
    const bool more = first < all_.end;
    const PageMemory& next = more ? half : a_.v;
    const int start = more ? first : all_.begin / kBlockKeys * kBlockKeys;
    if (more || &half == &a_.k) {
      PrefetchedRows rows{next.head_bytes};
      find_rows(next, table_, job_.kv_head, first_key_ + start, all_.in_block(start), rows);
    }
  }

  void score(const Rows& k, int first, Span span) {
    if (staged_) {
      stage_keys(k, span, dim_, s_.staged);
    }
    for_each_group(first, [&](auto queries, int i, Span seen) {
      constexpr int kQ = decltype(queries)::value;
      const float* q[kQ];
      for (int j = 0; j < kQ; ++j) {
        q[j] = s_.q[i + j];
      }
      if (staged_) {
        score_staged<kQ>(q, s_.staged, seen, dim_, first, s_.scores + i);
      } else {
        score_block<kQ>(q, k, seen, dim_, first, s_.scores + i);
      }
    });
  }

  void weigh(int i) {
    const Span all = union_of(s_.spans + i, together(i));
    for (int j = i; j < i + together(i); ++j) {
      SoftmaxState& state = s_.split[j];
      std::fill(state.values, state.values + dim_, 0.0f);
      if (s_.spans[j].empty()) {
        state.total = 0.0f;
        std::fill(s_.scores[j] + std::min(all.begin, all.end), s_.scores[j] + all.end, 0.0f);
      } else {
        weigh_scores(s_.scores[j], s_.spans[j], all, a_.softcap, state);
      }
    }
  }

  void add_values(const Rows& v, int first, Span span) {
    FloatRows<float, kBlockKeys> floats;
    if (staged_) {
      stage_values(v, span, dim_, s_.staged, floats);
    }
    for_each_group(first, [&](auto queries, int i, Span seen) {
      constexpr int kQ = decltype(queries)::value;
      if (staged_) {
        sum_values<kQ>(s_.scores + i, floats, seen, dim_, first, s_.split + i);
      } else {
        sum_values<kQ>(s_.scores + i, v, seen, dim_, first, s_.split + i);
      }
    });
  }

  // Queries in fours, with what they see of the block: body(count as a type, first query, span).
  template <class Body>
  void for_each_group(int first, Body body) {
    for (int i = 0; i < count_; i += kQueriesTogether) {
      const Span seen = union_of(s_.spans + i, together(i)).in_block(first);
      if (seen.empty()) {
        continue;
      }
      switch (together(i)) {
        case 4:
          body(std::integral_constant<int, 4>(), i, seen);
          break;
        case 3:
          body(std::integral_constant<int, 3>(), i, seen);
          break;
        case 2:
          body(std::integral_constant<int, 2>(), i, seen);
          break;
        default:
          body(std::integral_constant<int, 1>(), i, seen);
      }
    }
  }

  const PagedAttention& a_;
  const AttentionJob& job_;
  JobScratch& s_;
  const int32_t* table_;
  int64_t first_key_;
  int dim_;
  int count_;
  bool staged_;
  Span all_;
};

void reset(SoftmaxState& state, int64_t dim) {
  state.largest = -std::numeric_limits<float>::infinity();
  state.total = 0.0f;
  std::fill(state.values, state.values + dim, 0.0f);
}

void attend_split(const PagedAttention& a, const AttentionJob& job, int64_t split, JobScratch& s) {
  switch (a.k.type) {
    case PageType::f32:
      return SplitPass<FloatRows<float, kBlockKeys>>(a, job, split, s).run();
    case PageType::f16:
      return SplitPass<FloatRows<hwy::float16_t, kBlockKeys>>(a, job, split, s).run();
    case PageType::bf16:
      return SplitPass<FloatRows<hwy::bfloat16_t, kBlockKeys>>(a, job, split, s).run();
    case PageType::int8:
      return SplitPass<CodedRows<8, kBlockKeys>>(a, job, split, s).run();
    case PageType::int4:
      return SplitPass<CodedRows<4, kBlockKeys>>(a, job, split, s).run();
  }
}

// The sink joins the sum, and the weighted values become the output.
void finish(const PagedAttention& a, int64_t query, SoftmaxState& state) {
  float factor = 1.0f;
  if (a.sinks != nullptr) {
    const float sink = a.sinks[query % a.q_heads] * kLog2E;
    const float largest = std::max(state.largest, sink);
    factor = power_of_two(state.largest - largest);
    state.total = state.total * factor + power_of_two(sink - largest);
  }
  const float share = state.total == 0.0f ? 0.0f : factor / state.total;
  const auto dim = static_cast<int>(a.k.dim);
  if (dim % static_cast<int>(hn::Lanes(FloatTag())) == 0) {
    scale_into(state.values, dim, share, a.out + query * a.k.dim);
    return;
  }
  for (int c = 0; c < dim; ++c) {
    a.out[query * a.k.dim + c] = state.values[c] * share;
  }
}

void run_whole_job(const PagedAttention& a, const AttentionJob& job) {
  JobScratch& s = scratch();
  load_queries(a, job, s);
  const auto dim = static_cast<int>(a.k.dim);
  for (int i = 0; i < job.count(); ++i) {
    reset(s.whole[i], a.k.dim);
  }
  const KeyRange keys = job.seen_by_all(a);
  for (int64_t split = keys.begin / kSplitKeys; split * kSplitKeys < keys.end; ++split) {
    attend_split(a, job, split, s);
    for (int i = 0; i < job.count(); ++i) {
      if (s.split[i].total != 0.0f) {
        merge_states(s.split[i], dim, s.whole[i]);
      }
    }
  }
  for (int i = 0; i < job.count(); ++i) {
    finish(a, job.query_index(a, i), s.whole[i]);
  }
}

// A long row's split: its states go to `partial`, [count] × (largest, total, values).
void run_split_job(const PagedAttention& a, const AttentionJob& job, float* partial) {
  JobScratch& s = scratch();
  load_queries(a, job, s);
  attend_split(a, job, job.split, s);
  for (int i = 0; i < job.count(); ++i) {
    float* to = partial + i * partial_floats(a);
    to[0] = s.split[i].largest;
    to[1] = s.split[i].total;
    std::copy_n(s.split[i].values, a.k.dim, to + 2);
  }
}

// Merges the partial states of one query, in order of the splits, `stride` floats apart.
void merge_splits(const PagedAttention& a, int64_t query, const float* partial, int64_t splits,
                  int64_t stride) {
  const auto dim = static_cast<int>(a.k.dim);
  SoftmaxState whole;
  SoftmaxState next;
  reset(whole, a.k.dim);
  reset(next, a.k.dim);
  for (int64_t split = 0; split < splits; ++split) {
    const float* from = partial + split * stride;
    next.largest = from[0];
    next.total = from[1];
    std::copy_n(from + 2, dim, next.values);
    if (next.total != 0.0f) {
      merge_states(next, dim, whole);
    }
  }
  finish(a, query, whole);
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pome::kernels {
namespace {

HWY_EXPORT(run_whole_job);
HWY_EXPORT(run_split_job);
HWY_EXPORT(merge_splits);

VariantCounter count_whole("paged_attention/whole_rows");
VariantCounter count_split("paged_attention/split_rows");

void run_split_jobs(const PagedAttention& a, const AttentionJobs& jobs) {
  thread_local std::vector<float> partial;
  const int64_t floats = partial_floats(a);
  if (static_cast<int64_t>(partial.size()) < jobs.split_states * floats) {
    partial.resize(jobs.split_states * floats);
  }
  float* states = partial.data();
  parallel_for(jobs.split.size(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      HWY_DYNAMIC_DISPATCH(run_split_job)
      (a, jobs.split[j], states + jobs.split[j].first_state * floats);
    }
  });
  parallel_for(jobs.merges.size(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      const SplitMerge& merge = jobs.merges[m];
      HWY_DYNAMIC_DISPATCH(merge_splits)
      (a, merge.query, states + merge.first_state * floats, merge.splits, merge.stride * floats);
    }
  });
}

}  // namespace

void run_paged_attention(const PagedAttention& a) {
  const AttentionJobs jobs = list_jobs(a);
  // Tokens that no row owns (padding) get zeros.
  for (const KeyRange gap : jobs.unowned) {
    std::fill(a.out + gap.begin * a.q_heads * a.k.dim, a.out + gap.end * a.q_heads * a.k.dim, 0.0f);
  }
  if (!jobs.whole.empty()) {
    count_whole.add();
    parallel_for(jobs.whole.size(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        HWY_DYNAMIC_DISPATCH(run_whole_job)(a, jobs.whole[j]);
      }
    });
  }
  if (!jobs.split.empty()) {
    count_split.add();
    run_split_jobs(a, jobs);
  }
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
