#pragma once

#include <cstdint>

namespace pome::kernels {

struct SampleWork {
  const float* logits = nullptr;  // [rows, vocabulary]
  int64_t rows = 0;
  int64_t vocabulary = 0;
  const float* temperature = nullptr;  // [rows], and so on as in SampleRows
  const int32_t* top_k = nullptr;
  const float* top_p = nullptr;
  const float* min_p = nullptr;
  const uint32_t* seed = nullptr;  // [rows, 2]
  const int32_t* output_index = nullptr;
  int32_t* tokens = nullptr;  // [rows]
};

// On the calling thread and the pool.
void run_sample(const SampleWork& work);

void run_row_logsumexp(const float* logits, int64_t rows, int64_t vocabulary, float* out);

// values and ids [rows, k].
void run_top_logprobs(const float* logits, int64_t rows, int64_t vocabulary, int64_t k,
                      float* values, int32_t* ids);

}  // namespace pome::kernels
