#pragma once

#include <cstdint>

#include "tensor/mlx.h"

namespace pome::kernels {

// How each of O rows draws its token; the fields of sampling::Params as arrays. Filters run in this
// order, each on what the one before left: temperature; top-k (ties at the border go to the lower
// ids, so exactly k stay); top-p (the fewest tokens, from the most probable down, ties by lower id,
// whose share of what top-k left reaches top_p); min-p (probability at least min_p times the
// largest); then one draw.
struct SampleRows {
  mx::array temperature;   // [O] f32; 0: greedy, the largest logit, the lowest id among equals
  mx::array top_k;         // [O] int32; <= 0 or >= V: all
  mx::array top_p;         // [O] f32; >= 1: all
  mx::array min_p;         // [O] f32; 0: all
  mx::array seed;          // [O, 2] uint32: low and high half of a 64-bit seed
  mx::array output_index;  // [O] int32: which output token of the sequence this is
};

// logits [O, V] f32 → token ids [O] int32. The draw is argmax over what is left of logit /
// temperature + noise with noise = -log(e), e = -log1p(-u): u is uniform, made of noise_bits(seed,
// output index, token id) and of nothing else, so a row gives the same token alone and in a crowd.
// NaN logits count as -inf; -inf logits are never drawn unless all are -inf (then id 0).
mx::array sample(const mx::array& logits, const SampleRows& rows);

// The counter-based hash behind the noise, 32 bits for each (seed, index, id):
//   mix(h) = MurmurHash3's 32-bit finaliser
//   a = mix(seed_low ^ mix(index * 0x9E3779B1 + 0x85EBCA77)),  b = mix(seed_high + a)
//   noise_bits = mix(mix((id * 0x9E3779B1) ^ a) + b)
uint32_t noise_bits(uint64_t seed, int32_t output_index, int32_t token);

// log(sum(exp(logits))) of each row: [O, V] f32 → [O] f32.
mx::array row_logsumexp(const mx::array& logits);

struct TopLogprobs {
  mx::array values;  // [O, k] f32: log softmax, best first
  mx::array ids;     // [O, k] int32; ties by lower id
};

// The k best of each row's log softmax, 1 <= k <= V.
TopLogprobs logprobs_top_k(const mx::array& logits, int32_t k);

// log softmax of each row at one token: logits [O, V], tokens [O] int32 → [O] f32.
mx::array logprobs_at(const mx::array& logits, const mx::array& tokens);

namespace reference {
mx::array sample(const mx::array& logits, const SampleRows& rows);
mx::array row_logsumexp(const mx::array& logits);
TopLogprobs logprobs_top_k(const mx::array& logits, int32_t k);
}  // namespace reference
}  // namespace pome::kernels
