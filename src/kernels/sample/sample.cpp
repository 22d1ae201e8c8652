#include "kernels/sample/sample.h"

namespace pome::kernels {
namespace {

uint32_t mix(uint32_t h) {
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

}  // namespace

uint32_t noise_bits(uint64_t seed, int32_t output_index, int32_t token) {
  const auto low = static_cast<uint32_t>(seed);
  const auto high = static_cast<uint32_t>(seed >> 32);
  const uint32_t a =
      mix(low ^ mix(static_cast<uint32_t>(output_index) * 0x9E3779B1u + 0x85EBCA77u));
  const uint32_t b = mix(high + a);
  return mix(mix((static_cast<uint32_t>(token) * 0x9E3779B1u) ^ a) + b);
}

mx::array sample(const mx::array& logits, const SampleRows& rows) {
  return reference::sample(logits, rows);
}

mx::array row_logsumexp(const mx::array& logits) {
  return reference::row_logsumexp(logits);
}

TopLogprobs logprobs_top_k(const mx::array& logits, int32_t k) {
  return reference::logprobs_top_k(logits, k);
}

mx::array logprobs_at(const mx::array& logits, const mx::array& tokens) {
  return mx::squeeze(mx::take_along_axis(logits, mx::expand_dims(tokens, 1), 1), 1) -
         row_logsumexp(logits);
}

}  // namespace pome::kernels
