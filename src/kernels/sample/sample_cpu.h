#pragma once

#include <cstdint>
#include <span>

#include "kernels/sample/sample_rows.h"

namespace pome::kernels {

struct SampleWork {
  const float* logits = nullptr;  // [L, vocabulary]
  int64_t vocabulary = 0;
  std::span<const SampleRow> rows = {};
  int32_t* tokens = nullptr;  // [rows]
  int32_t* broken = nullptr;  // [rows]
};

// On the calling thread and the pool.
void run_sample(const SampleWork& work);

struct LogprobWork {
  const float* logits = nullptr;  // [L, vocabulary]
  int64_t vocabulary = 0;
  const LogprobRows* rows = nullptr;
  const int32_t* tokens = nullptr;
  float* values = nullptr;  // as Logprobs in sample.h
  int32_t* ids = nullptr;
};

void run_logprobs(const LogprobWork& work);

// From so many rows on, each row is one unit of work for the pool; below, each block of a row.
inline constexpr int64_t kRowsAsUnits = 8;

}  // namespace pome::kernels
