#include "text/tokenizer/gguf_vocabulary.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace pome::text {
namespace {

Error wrong(std::string_view key, std::string_view expected) {
  return invalid(fmt::format("[GGUF tokenizer] {}: expected {}", key, expected));
}

// Each element of an array under `key` through `read`; absent: an empty vector.
template <typename T, typename Read>
Result<std::vector<T>> read_array(const json::object& metadata, std::string_view key,
                                  std::string_view expected, const Read& read) {
  std::vector<T> out;
  const json::value* found = metadata.if_contains(key);
  if (!found) {
    return out;
  }
  const json::array* array = found->if_array();
  if (!array) {
    return wrong(key, expected);
  }
  out.reserve(array->size());
  for (const json::value& element : *array) {
    std::optional<T> value = read(element);
    if (!value) {
      return wrong(key, fmt::format("{}, got {} at index {}", expected, json_type_name(element),
                                    out.size()));
    }
    out.push_back(std::move(*value));
  }
  return out;
}

std::optional<std::string> as_text(const json::value& value) {
  const json::string* text = value.if_string();
  return text ? std::optional<std::string>(std::in_place, text->data(), text->size())
              : std::nullopt;
}

std::optional<float> as_float(const json::value& value) {
  const auto number = as_double(value);
  return number ? std::optional(static_cast<float>(*number)) : std::nullopt;
}

std::optional<int32_t> as_int32(const json::value& value) {
  const auto number = as_int(value);
  if (!number || *number < std::numeric_limits<int32_t>::min() ||
      *number > std::numeric_limits<int32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<int32_t>(*number);
}

// An id under `key`: absent is fine; GGUF writers use all ones for "none".
Status read_id(const json::object& metadata, std::string_view key, size_t token_count,
               std::optional<Token>& out) {
  const json::value* found = metadata.if_contains(key);
  if (!found) {
    return {};
  }
  const auto id = as_int(*found);
  if (!id) {
    return wrong(key, "an integer");
  }
  if (*id == -1 || *id == std::numeric_limits<uint32_t>::max()) {
    return {};
  }
  if (*id < 0 || static_cast<uint64_t>(*id) >= token_count) {
    return wrong(key, fmt::format("an id below {} (the vocabulary), got {}", token_count, *id));
  }
  out = static_cast<Token>(*id);
  return {};
}

Status read_flag(const json::object& metadata, std::string_view key, std::optional<bool>& out) {
  if (!metadata.contains(key)) {
    return {};
  }
  out = find_bool(metadata, key);
  return out ? Status() : Status(wrong(key, "true or false"));
}

Status read_arrays(const json::object& metadata, GgufVocabulary& out) {
  auto tokens = read_array<std::string>(metadata, "tokenizer.ggml.tokens", "strings", as_text);
  if (!tokens) {
    return tokens.error();
  }
  if (tokens->empty()) {
    return wrong("tokenizer.ggml.tokens", "the vocabulary, but it is missing or empty");
  }
  auto merges = read_array<std::string>(metadata, "tokenizer.ggml.merges", "strings", as_text);
  if (!merges) {
    return merges.error();
  }
  auto scores = read_array<float>(metadata, "tokenizer.ggml.scores", "numbers", as_float);
  if (!scores) {
    return scores.error();
  }
  auto types = read_array<int32_t>(metadata, "tokenizer.ggml.token_type", "integers", as_int32);
  if (!types) {
    return types.error();
  }
  out.tokens = std::move(*tokens);
  out.merges = std::move(*merges);
  out.scores = std::move(*scores);
  out.token_types = std::move(*types);
  return {};
}

std::vector<NamedTemplate> read_chat_templates(const json::object& metadata) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::vector<NamedTemplate> out;
  if (auto text = find_string(metadata, kKey)) {
    out.push_back({"default", std::move(*text)});
  }
  for (const auto& [key, value] : metadata) {
    const std::string_view name(key.data(), key.size());
    const bool named = name.starts_with(kKey) && name.substr(kKey.size()).starts_with('.');
    if (named && value.is_string()) {
      out.push_back({std::string(name.substr(kKey.size() + 1)), std::string(value.get_string())});
    }
  }
  return out;
}

}  // namespace

Result<GgufVocabulary> read_gguf_vocabulary(const json::object& metadata) {
  GgufVocabulary out;
  const auto model = find_string(metadata, "tokenizer.ggml.model");
  if (!model) {
    return wrong("tokenizer.ggml.model", "a string; the file carries no tokenizer");
  }
  out.model = *model;
  out.pre = find_string(metadata, "tokenizer.ggml.pre").value_or("default");
  POME_TRY(read_arrays(metadata, out));
  const size_t count = out.tokens.size();
  POME_TRY(read_id(metadata, "tokenizer.ggml.bos_token_id", count, out.bos));
  POME_TRY(read_id(metadata, "tokenizer.ggml.eos_token_id", count, out.eos));
  POME_TRY(read_id(metadata, "tokenizer.ggml.unknown_token_id", count, out.unknown));
  POME_TRY(read_id(metadata, "tokenizer.ggml.padding_token_id", count, out.pad));
  POME_TRY(read_flag(metadata, "tokenizer.ggml.add_bos_token", out.add_bos));
  POME_TRY(read_flag(metadata, "tokenizer.ggml.add_eos_token", out.add_eos));
  POME_TRY(read_flag(metadata, "tokenizer.ggml.add_space_prefix", out.add_space_prefix));
  out.chat_templates = read_chat_templates(metadata);
  return out;
}

}  // namespace pome::text
