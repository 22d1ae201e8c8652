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
#include "kernels/paged_attention/pages_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

void append_tokens(const PageMemory& pages, const float* values, const int32_t* slots,
                   int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    store_slot(pages, values + t * pages.token_elements(), slots[t]);
  }
}

// Jobs of more queries than this turn a block's halves into floats once.
inline constexpr int kStagedQueries = 2 * kQueriesTogether;

// The queries of one job, scaled and padded, and their states.
struct JobScratch {
  HWY_ALIGN float q[kJobQueries][kHeadDimMax + 16];
  HWY_ALIGN float scores[kQueriesTogether][kKeyBlock];
  HWY_ALIGN float k[kKeyBlock * kHeadDimMax];
  HWY_ALIGN float v[kKeyBlock * kHeadDimMax];
  SoftmaxState block[kQueriesTogether];
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
  for (int i = 0; i < job.count(); ++i) {
    scale_into(a.q + job.query_index(a, i) * a.k.dim, static_cast<int>(a.k.dim), a.scale, s.q[i]);
  }
}

template <typename T>
void load_block(const PagedAttention& a, const AttentionJob& job, int64_t first, Span span,
                KeyBlock<T>& block) {
  const auto* k = static_cast<const T*>(a.k.data);
  const auto* v = static_cast<const T*>(a.v.data);
  const int32_t* table = a.page_table + job.row * a.table_pages;
  for (int i = span.begin; i < span.end; ++i) {
    const int64_t position = first + i;
    const int64_t page = table[position / a.k.page_tokens];
    // A page outside the pool is a caller's bug; it must not become a wild read.
    const int64_t known = page >= 0 && page < a.k.pages ? page : 0;
    const int64_t slot = known * a.k.page_tokens + position % a.k.page_tokens;
    block.k[i] = k + (slot * a.k.heads + job.kv_head) * a.k.dim;
    block.v[i] = v + (slot * a.v.heads + job.kv_head) * a.v.dim;
  }
}

// The block's keys and values as floats in the scratch, for jobs whose queries read them several
// times.
template <typename T>
void stage_block(const KeyBlock<T>& block, Span span, int dim, JobScratch& s,
                 KeyBlock<float>& staged) {
  const FloatTag d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const auto copy = [&](const T* from, float* to) {
    int c = 0;
    for (; c + lanes <= dim; c += lanes) {
      hn::StoreU(load_as_float(d, from + c), d, to + c);
    }
    if (c < dim) {
      const auto left = static_cast<size_t>(dim - c);
      store_tail(d, load_as_float_tail(d, from + c, left), to + c, left);
    }
  };
  for (int i = span.begin; i < span.end; ++i) {
    float* k = s.k + i * dim;
    float* v = s.v + i * dim;
    copy(block.k[i], k);
    copy(block.v[i], v);
    staged.k[i] = k;
    staged.v[i] = v;
  }
}

// From the first key that any of them sees to the last; empty where none sees any.
Span union_of(const Span* spans, int count) {
  Span all{kKeyBlock, 0};
  for (int i = 0; i < count; ++i) {
    if (!spans[i].empty()) {
      all.begin = std::min(all.begin, spans[i].begin);
      all.end = std::max(all.end, spans[i].end);
    }
  }
  return all;
}

template <int kQ, typename T>
HWY_NOINLINE void attend_together(const PagedAttention& a, const KeyBlock<T>& block, int first,
                                  const Span* spans, JobScratch& s) {
  const Span all = union_of(spans, kQ);
  const float* q[kQ];
  SoftmaxState* states[kQ];
  for (int i = 0; i < kQ; ++i) {
    q[i] = s.q[first + i];
    states[i] = &s.block[i];
  }
  if (all.empty()) {
    return;
  }
  const auto dim = static_cast<int>(a.k.dim);
  score_block<kQ>(q, block, all, dim, s.scores);
  for (int i = 0; i < kQ; ++i) {
    if (spans[i].empty()) {
      std::fill(s.scores[i], s.scores[i] + kKeyBlock, 0.0f);
    } else {
      weigh_scores(s.scores[i], spans[i], a.softcap, s.block[i]);
    }
  }
  sum_values<kQ>(s.scores, block, all, dim, states);
  for (int i = 0; i < kQ; ++i) {
    if (!spans[i].empty()) {
      merge_states(s.block[i], dim, s.split[first + i]);
    }
  }
}

template <typename T>
void attend_queries(const PagedAttention& a, const AttentionJob& job, const KeyBlock<T>& block,
                    const Span* spans, JobScratch& s) {
  for (int i = 0; i < job.count(); i += kQueriesTogether) {
    switch (std::min(kQueriesTogether, job.count() - i)) {
      case 4:
        attend_together<4>(a, block, i, spans + i, s);
        break;
      case 3:
        attend_together<3>(a, block, i, spans + i, s);
        break;
      case 2:
        attend_together<2>(a, block, i, spans + i, s);
        break;
      default:
        attend_together<1>(a, block, i, spans + i, s);
    }
  }
}

// One block of keys joins the split states of the job's queries.
template <typename T>
void attend_block(const PagedAttention& a, const AttentionJob& job, int64_t first_key,
                  JobScratch& s) {
  Span spans[kJobQueries];
  for (int i = 0; i < job.count(); ++i) {
    const KeyRange seen = job.seen(a, i);
    spans[i].begin = static_cast<int>(std::clamp<int64_t>(seen.begin - first_key, 0, kKeyBlock));
    spans[i].end = static_cast<int>(std::clamp<int64_t>(seen.end - first_key, 0, kKeyBlock));
  }
  const Span all = union_of(spans, job.count());
  if (all.empty()) {
    return;
  }
  KeyBlock<T> block;
  load_block(a, job, first_key, all, block);
  if constexpr (!std::is_same_v<T, float>) {
    if (job.count() > kStagedQueries) {
      KeyBlock<float> staged;
      stage_block(block, all, static_cast<int>(a.k.dim), s, staged);
      return attend_queries(a, job, staged, spans, s);
    }
  }
  attend_queries(a, job, block, spans, s);
}

// Zeros up to the next whole vector, which merging reads.
void reset(SoftmaxState& state, int64_t dim) {
  state.largest = -std::numeric_limits<float>::infinity();
  state.total = 0.0f;
  std::fill(state.values, state.values + (dim + 15) / 16 * 16, 0.0f);
}

// The split's keys, block by block, into the job's split states.
void attend_split(const PagedAttention& a, const AttentionJob& job, int64_t split, JobScratch& s) {
  for (int i = 0; i < job.count(); ++i) {
    reset(s.split[i], a.k.dim);
  }
  for (int64_t key = split * kSplitKeys; key < (split + 1) * kSplitKeys; key += kKeyBlock) {
    switch (a.k.type) {
      case PageType::f32:
        attend_block<float>(a, job, key, s);
        break;
      case PageType::f16:
        attend_block<hwy::float16_t>(a, job, key, s);
        break;
      case PageType::bf16:
        attend_block<hwy::bfloat16_t>(a, job, key, s);
        break;
    }
  }
}

// The sink joins the sum, and the weighted values become the output.
void finish(const PagedAttention& a, int64_t query, SoftmaxState& state) {
  float factor = 1.0f;
  if (a.sinks != nullptr) {
    const float sink = a.sinks[query % a.q_heads];
    const float largest = std::max(state.largest, sink);
    factor = exp_of(state.largest - largest);
    state.total = state.total * factor + exp_of(sink - largest);
  }
  const float share = state.total > 0.0f ? factor / state.total : 0.0f;
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
      if (s.split[i].total > 0.0f) {
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
    if (next.total > 0.0f) {
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

HWY_EXPORT(append_tokens);
HWY_EXPORT(run_whole_job);
HWY_EXPORT(run_split_job);
HWY_EXPORT(merge_splits);

VariantCounter count_append("paged_attention/append");
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

void run_append(const PageMemory& pages, const float* values, const int32_t* slots,
                int64_t tokens) {
  count_append.add();
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, pages.token_elements()));
  parallel_for(tokens, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(append_tokens)(pages, values, slots, begin, end);
  });
}

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
