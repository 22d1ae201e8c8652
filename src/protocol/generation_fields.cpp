#include "protocol/generation_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace pome::protocol {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

void read_logit_bias(ObjectReader& reader, sampling::Params& params) {
  const json::object* biases = reader.object("logit_bias");
  if (biases == nullptr) {
    return;
  }
  if (biases->size() > kLogitBiasesMax) {
    reader.fail("logit_bias", fmt::format("expected at most {} entries, got {}", kLogitBiasesMax,
                                          biases->size()));
    return;
  }
  for (const auto& [key, value] : *biases) {
    Token token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0) {
      reader.fail("logit_bias", "expected token ids as keys");
      return;
    }
    const std::optional<double> bias = as_double(value);
    if (!bias || !(*bias >= -100.0 && *bias <= 100.0)) {
      reader.fail("logit_bias",
                  fmt::format("expected a number from -100 to 100 for token {}", token));
      return;
    }
    params.logit_bias[token] = static_cast<float>(*bias);
  }
}

void read_float(ObjectReader& reader, std::string_view name, NumberRange range, float& out) {
  if (const auto number = reader.number(name, range)) {
    out = static_cast<float>(*number);
  }
}

void read_sampling(ObjectReader& reader, const GenerationNames& names, sampling::Params& params) {
  read_float(reader, "temperature", {.min = 0.0, .max = 100.0}, params.temperature);
  read_float(reader, "top_p", {.min = 0.0, .max = 1.0}, params.top_p);
  if (params.top_p <= 0.0f) {
    params.top_p = std::numeric_limits<float>::min();  // the best token alone
  }
  read_float(reader, "min_p", {.min = 0.0, .max = 1.0}, params.min_p);
  read_float(reader, "frequency_penalty", {.min = -2.0, .max = 2.0}, params.frequency_penalty);
  read_float(reader, "presence_penalty", {.min = -2.0, .max = 2.0}, params.presence_penalty);
  read_float(reader, "repetition_penalty", {.min = 0.0, .max = 2.0, .min_excluded = true},
             params.repetition_penalty);
  if (const auto top_k = reader.integer("top_k", {.min = -1, .max = kInt32Max})) {
    params.top_k = *top_k == 0 ? -1 : static_cast<int32_t>(*top_k);
  }
  if (const auto seed = reader.seed(names.seed); seed && *seed != ~uint64_t{0}) {
    params.seed = *seed;
  }
  if (const auto least = reader.integer(names.min_tokens, {.min = 0, .max = kInt32Max})) {
    params.min_tokens = static_cast<int32_t>(*least);
  }
  read_logit_bias(reader, params);
}

}  // namespace

void read_generation_fields(ObjectReader& reader, const GenerationNames& names,
                            GenerationFields& fields) {
  read_sampling(reader, names, fields.sampling);
  fields.stop = reader.strings("stop", {.items_max = kStopsMax, .item_bytes_max = kStopBytesMax});
  fields.stop_tokens = reader.tokens("stop_token_ids", kStopTokensMax);
  fields.ignore_eos = reader.boolean("ignore_eos").value_or(fields.ignore_eos);
  fields.keep_stop = reader.boolean(names.keep_stop).value_or(fields.keep_stop);
  fields.keep_stop = reader.boolean("no_stop_trim").value_or(fields.keep_stop);
  fields.skip_special_tokens =
      reader.boolean("skip_special_tokens").value_or(fields.skip_special_tokens);
  read_placement_fields(reader, fields);
  if (const auto choices = reader.integer("n", {.min = 1, .max = kChoicesMax})) {
    fields.choices = static_cast<int32_t>(*choices);
  }
}

void read_placement_fields(ObjectReader& reader, GenerationFields& fields) {
  if (const auto priority = reader.integer(
          "priority", {.min = std::numeric_limits<int32_t>::min(), .max = kInt32Max})) {
    fields.priority = static_cast<int32_t>(*priority);
  }
  const std::string salt = reader.string("cache_salt", kNameBytesMax).value_or("");
  const std::string key = reader.string("extra_key", kNameBytesMax).value_or("");
  if (!salt.empty() || !key.empty()) {
    // The length keeps ("a", "bc") and ("ab", "c") apart, and both from pome's own namespaces.
    fields.cache_namespace = fmt::format("{}:{}{}", salt.size(), salt, key);
  }
}

void read_chat_logprobs(ObjectReader& reader, GenerationFields& fields) {
  const bool logprobs = reader.boolean("logprobs").value_or(false);
  const auto top = reader.integer("top_logprobs", {.min = 0, .max = kTopLogprobsMax});
  if (top && *top > 0 && !logprobs) {
    reader.fail("top_logprobs", "needs \"logprobs\": true");
  }
  if (logprobs) {
    fields.top_logprobs = static_cast<int32_t>(top.value_or(0));
  }
}

std::optional<int32_t> read_token_limit(ObjectReader& reader, std::string_view name,
                                        ZeroTokens zero) {
  const auto limit = reader.integer(name, {.min = -1, .max = kInt32Max});
  if (limit && *limit == 0 && zero == ZeroTokens::refused) {
    reader.fail(name, "expected at least 1 token, got 0");
    return std::nullopt;
  }
  if (!limit || *limit == -1) {
    return std::nullopt;
  }
  return static_cast<int32_t>(*limit);
}

}  // namespace pome::protocol
