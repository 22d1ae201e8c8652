#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tensor/checkpoint/hf_config.h"
#include "tensor/checkpoint/load_error.h"

namespace pome::tensor {
namespace {

// Control tokens that end a turn in the chat formats in use, whatever the file's eos id says.
constexpr std::array<std::string_view, 12> kEndOfTurn = {
    "<|im_end|>", "<|eot_id|>",    "<|eom_id|>",         "<|end|>",
    "<|eot|>",    "<end_of_turn>", "<|endoftext|>",      "<|end_of_text|>",
    "<EOT>",      "<|return|>",    "<end_of_utterance>", "<｜end▁of▁sentence｜>"};

constexpr int64_t kControlToken = 3;

Error refuse(std::string_view key, std::string_view expected) {
  return invalid(fmt::format("[generation config] expected \"{}\" to be {}", key, expected));
}

Result<Token> read_token(const json::value& value, std::string_view key) {
  const std::optional<int64_t> id = as_int(value);
  if (!id || *id < 0 || *id > INT32_MAX) {
    return refuse(key, "a token id");
  }
  return static_cast<Token>(*id);
}

// One id or a list of ids; nothing where the key is absent or null.
Result<std::vector<Token>> read_tokens(const json::object& object, std::string_view key) {
  std::vector<Token> ids;
  const json::value* value = find(object, key);
  if (value == nullptr || value->is_null()) {
    return ids;
  }
  if (!value->is_array()) {
    Result<Token> id = read_token(*value, key);
    if (!id) {
      return id.error();
    }
    return std::vector<Token>{*id};
  }
  for (const json::value& element : value->get_array()) {
    Result<Token> id = read_token(element, key);
    if (!id) {
      return id.error();
    }
    ids.push_back(*id);
  }
  return ids;
}

Status read_real(const json::object& object, std::string_view key, double least, double most,
                 std::optional<float>& out) {
  const json::value* value = find(object, key);
  if (value == nullptr || value->is_null()) {
    return {};
  }
  const std::optional<double> number = as_double(*value);
  if (!number || !(*number >= least && *number <= most)) {
    return refuse(key, fmt::format("a number from {} to {}", least, most));
  }
  out = static_cast<float>(*number);
  return {};
}

Status read_integer(const json::object& object, std::string_view key, std::optional<int32_t>& out) {
  const json::value* value = find(object, key);
  if (value == nullptr || value->is_null()) {
    return {};
  }
  const std::optional<int64_t> number = as_int(*value);
  if (!number || *number < -1 || *number > INT32_MAX) {
    return refuse(key, "an integer of at least -1");
  }
  out = static_cast<int32_t>(*number);
  return {};
}

struct SamplingKeys {
  std::string_view temperature, top_p, top_k, min_p, repetition_penalty;
};

Status read_sampling(const json::object& object, const SamplingKeys& keys,
                     GenerationDefaults& out) {
  POME_TRY(read_real(object, keys.temperature, 0.0, 100.0, out.temperature));
  POME_TRY(read_real(object, keys.top_p, 0.0, 1.0, out.top_p));
  POME_TRY(read_integer(object, keys.top_k, out.top_k));
  POME_TRY(read_real(object, keys.min_p, 0.0, 1.0, out.min_p));
  return read_real(object, keys.repetition_penalty, 0.01, 100.0, out.repetition_penalty);
}

Status add_eos(const json::object& object, std::string_view key, GenerationDefaults& out) {
  Result<std::vector<Token>> ids = read_tokens(object, key);
  if (!ids) {
    return ids.error();
  }
  out.eos_token_ids.insert(out.eos_token_ids.end(), ids->begin(), ids->end());
  return {};
}

Status read_bos(const json::object& object, std::string_view key, GenerationDefaults& out) {
  Result<std::vector<Token>> ids = read_tokens(object, key);
  if (!ids) {
    return ids.error();
  }
  if (!ids->empty() && !out.bos_token_id) {
    out.bos_token_id = ids->front();
  }
  return {};
}

void add_end_of_turn_tokens(const json::object& metadata, GenerationDefaults& out) {
  const json::array* tokens = find_array(metadata, "tokenizer.ggml.tokens");
  const json::array* types = find_array(metadata, "tokenizer.ggml.token_type");
  if (tokens == nullptr || types == nullptr || types->size() != tokens->size()) {
    return;
  }
  for (size_t id = 0; id < tokens->size(); ++id) {
    if (as_int((*types)[id]) != kControlToken || !(*tokens)[id].is_string()) {
      continue;
    }
    const std::string_view text((*tokens)[id].get_string());
    if (std::find(kEndOfTurn.begin(), kEndOfTurn.end(), text) != kEndOfTurn.end()) {
      out.eos_token_ids.push_back(static_cast<Token>(id));
    }
  }
}

Status read_gguf(const json::object& metadata, GenerationDefaults& out) {
  POME_TRY(read_sampling(metadata,
                         {.temperature = "general.sampling.temp",
                          .top_p = "general.sampling.top_p",
                          .top_k = "general.sampling.top_k",
                          .min_p = "general.sampling.min_p",
                          .repetition_penalty = "general.sampling.penalty_repeat"},
                         out));
  for (std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                               "tokenizer.ggml.eom_token_id"}) {
    POME_TRY(add_eos(metadata, key, out));
  }
  add_end_of_turn_tokens(metadata, out);
  return read_bos(metadata, "tokenizer.ggml.bos_token_id", out);
}

Status read_hf(const Checkpoint& checkpoint, GenerationDefaults& out) {
  if (const json::object* generation = checkpoint.generation_config()) {
    POME_TRY(read_sampling(*generation,
                           {.temperature = "temperature",
                            .top_p = "top_p",
                            .top_k = "top_k",
                            .min_p = "min_p",
                            .repetition_penalty = "repetition_penalty"},
                           out));
    out.do_sample = find_bool(*generation, "do_sample");
    POME_TRY(add_eos(*generation, "eos_token_id", out));
    POME_TRY(read_bos(*generation, "bos_token_id", out));
  }
  std::vector<const json::object*> configs = {&checkpoint.config()};
  if (const json::object* text = find_object(checkpoint.config(), "text_config")) {
    configs.push_back(text);
  }
  for (const json::object* config : configs) {
    if (out.eos_token_ids.empty()) {
      POME_TRY(add_eos(*config, "eos_token_id", out));
    }
    POME_TRY(read_bos(*config, "bos_token_id", out));
  }
  return {};
}

}  // namespace

Result<GenerationDefaults> read_generation_defaults(const Checkpoint& checkpoint) {
  GenerationDefaults out;
  POME_TRY(checkpoint.format() == CheckpointFormat::gguf ? read_gguf(checkpoint.config(), out)
                                                         : read_hf(checkpoint, out));
  std::sort(out.eos_token_ids.begin(), out.eos_token_ids.end());
  out.eos_token_ids.erase(std::unique(out.eos_token_ids.begin(), out.eos_token_ids.end()),
                          out.eos_token_ids.end());
  return out;
}

}  // namespace pome::tensor
