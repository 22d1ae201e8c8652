#include "engine/memory/work_samples.h"

#include <algorithm>

#include "base/check.h"

namespace pome::engine {
namespace {

constexpr int64_t kReservePart = 8;
constexpr int64_t kStep = int64_t{1} << 20;

// Bytes for one more, rounded up; a sample that shrinks says nothing.
int64_t slope(int64_t bytes, int64_t count) {
  return bytes <= 0 ? 0 : (bytes + count - 1) / count;
}

int64_t with_reserve(int64_t bytes) {
  const int64_t more = bytes + bytes / kReservePart;
  return (more + kStep - 1) / kStep * kStep;
}

}  // namespace

int64_t work_of_step(const WorkSamples& samples, int64_t tokens, int64_t rows) {
  const WorkSample& small = samples.small;
  const WorkSample& more_tokens = samples.more_tokens;
  const WorkSample& more_rows = samples.more_rows;
  CHECK(more_tokens.tokens > small.tokens && more_tokens.rows == small.rows, "more tokens alone");
  CHECK(more_rows.rows >= small.rows && more_rows.tokens == small.tokens, "more rows alone");
  const int64_t per_token =
      slope(more_tokens.bytes - small.bytes, more_tokens.tokens - small.tokens);
  const int64_t per_row = more_rows.rows == small.rows
                              ? 0
                              : slope(more_rows.bytes - small.bytes, more_rows.rows - small.rows);
  const int64_t bytes = small.bytes + per_token * std::max<int64_t>(0, tokens - small.tokens) +
                        per_row * std::max<int64_t>(0, rows - small.rows);
  return with_reserve(bytes);
}

int64_t queued_step_bytes(const WorkSamples& samples) {
  return with_reserve(samples.queued_whole.bytes);
}

int64_t without_reserve(int64_t bytes) {
  return bytes - (bytes + kReservePart) / (kReservePart + 1);
}

}  // namespace pome::engine
