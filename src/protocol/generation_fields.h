#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "protocol/object_reader.h"
#include "sampling/params.h"

namespace pome::protocol {

inline constexpr int64_t kChoicesMax = 16;
inline constexpr size_t kStopsMax = 16;
inline constexpr size_t kStopBytesMax = 1024;
inline constexpr size_t kStopTokensMax = 256;
inline constexpr size_t kLogitBiasesMax = 1024;
inline constexpr int64_t kTopLogprobsMax = 20;
inline constexpr size_t kLogprobTokensMax = 256;
inline constexpr size_t kNameBytesMax = 512;

// How a continuation is to be generated, whatever dialect asked for it.
struct GenerationFields {
  sampling::Params sampling;
  std::optional<int32_t> max_tokens;  // absent: what the context leaves after the prompt
  std::vector<std::string> stop;
  bool keep_stop = false;  // the matched stop string stays in the text
  std::vector<Token> stop_tokens;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  int32_t choices = 1;
  int32_t top_logprobs = -1;  // as in engine::Job, and so on
  std::vector<Token> logprob_tokens;
  int32_t score_from = -1;
  int32_t priority = 0;
  std::string cache_namespace;  // of `cache_salt` and `extra_key`; empty without both
};

// Dialects differ in some names.
struct GenerationNames {
  std::string_view seed = "seed";
  std::string_view min_tokens = "min_tokens";
  std::string_view keep_stop = "include_stop_str_in_output";
};

// Reads every field that the dialects share into `fields`, which holds the defaults. Fields not
// read here: max_tokens and logprobs, whose meaning differs.
void read_generation_fields(ObjectReader& reader, const GenerationNames& names,
                            GenerationFields& fields);

// `priority`, `cache_salt` and `extra_key`, which every dialect has: when a request runs, and with
// whom it shares prefixes. What is absent leaves `fields` as it is.
void read_placement_fields(ObjectReader& reader, GenerationFields& fields);

// `logprobs` (true or false) and `top_logprobs`, as chats ask for them.
void read_chat_logprobs(ObjectReader& reader, GenerationFields& fields);

// A token limit: -1 means "no limit", as some clients send it; other negatives are refused. 0 means
// "the prompt alone".
enum class ZeroTokens { refused, accepted };
std::optional<int32_t> read_token_limit(ObjectReader& reader, std::string_view name,
                                        ZeroTokens zero = ZeroTokens::refused);

}  // namespace pome::protocol
