#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sample/sample_rows.h"
#include "tensor/mlx.h"

namespace pome::kernels {

struct Sampled {
  mx::array tokens;  // [O] int32
  mx::array broken;  // [O] int32: 1 where the row holds a NaN, or its largest is not finite: its
                     // token is then 0 and means nothing. The other rows do not notice.
};

// logits [L, V] → one token for each of O rows, at least one. The draw is argmax over what the
// filters left of logit / temperature + noise with noise = -log(e), e = -log1p(-u): u is uniform,
// made of noise_bits(seed, output index, token id) and of nothing else, so a row gives the same
// token alone and in a crowd. -inf is a logit like any other that is never drawn.
Sampled sample(const mx::array& logits, std::vector<SampleRow> rows);

// The counter-based hash behind the noise, 32 bits for each (seed, index, id):
//   mix(h) = MurmurHash3's 32-bit finaliser
//   a = mix(seed_low ^ mix(index * 0x9E3779B1 + 0x85EBCA77)),  b = mix(seed_high + a)
//   noise_bits = mix(mix((id * 0x9E3779B1) ^ a) + b)
uint32_t noise_bits(uint64_t seed, int32_t output_index, int32_t token);

// Log softmax of raw logits, f32; NaN throughout for a row that is broken as above.
struct Logprobs {
  mx::array values;  // [R + T + Q]: of the R chosen tokens; the T best, row after row; the Q
                     // requested, row after row
  mx::array ids;     // [max(T, 1)] int32: the best's tokens, best first, ties by lower id
};

// logits [L, V] and tokens int32 → what each of R rows wants, at least one row.
Logprobs logprobs(const mx::array& logits, const mx::array& tokens, LogprobRows rows);

namespace reference {
Sampled sample(const mx::array& logits, const std::vector<SampleRow>& rows);
Logprobs logprobs(const mx::array& logits, const mx::array& tokens, const LogprobRows& rows);
}  // namespace reference
}  // namespace pome::kernels
