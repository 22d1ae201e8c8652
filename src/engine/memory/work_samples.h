#pragma once

#include <cstdint>

namespace pome::engine {

// What a rehearsed step took at its peak, beyond weights and pool.
struct WorkSample {
  int64_t tokens = 0;
  int64_t rows = 0;  // that sample
  int64_t bytes = 0;
};

// Small steps that tell what a large one takes.
struct WorkSamples {
  WorkSample small = {};
  WorkSample more_tokens = {};   // with the rows of `small`
  WorkSample more_rows = {};     // with the tokens of `small`
  WorkSample queued_whole = {};  // the largest that is queued before it runs, with all it needs
};

// The peak of a step of `tokens` and `rows`: the samples' bytes grow by a constant for each token
// and for each row. A reserve of an eighth is added, for what small steps do not show,
// and it is rounded up to whole MiB, so that the same budget gives the same plan.
int64_t work_of_step(const WorkSamples& samples, int64_t tokens, int64_t rows);

// What a small step takes when it is queued whole, rounded in the same way.
int64_t queued_step_bytes(const WorkSamples& samples);

// `bytes` that were planned, less the reserve in them.
int64_t without_reserve(int64_t bytes);

}  // namespace pome::engine
