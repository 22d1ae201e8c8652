#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"

namespace pome::text {

// A chat template and what its file calls it: "default", "tool_use", …
struct NamedTemplate {
  std::string name;
  std::string text;
};

// A GGUF file's tokenizer.ggml.* keys as plain values.
struct GgufVocabulary {
  std::string model;                // "gpt2": byte-level BPE; "llama": SentencePiece BPE
  std::string pre = "default";      // pre-tokenizer of "gpt2"
  std::vector<std::string> tokens;  // the index is the id
  std::vector<float> scores;  // SentencePiece: larger merges first; as many as tokens, or none
  std::vector<int32_t>
      token_types;  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; or none
  std::vector<std::string> merges;  // "left right", best first
  std::optional<Token> bos;
  std::optional<Token> eos;
  std::optional<Token> unknown;
  std::optional<Token> pad;
  std::optional<bool> add_bos;  // absent: the model's habit (SentencePiece yes, byte-level no)
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;       // absent: SentencePiece yes
  std::vector<NamedTemplate> chat_templates;  // tokenizer.chat_template is "default"
};

// Reads the metadata of a GGUF file, keyed as in the file. A missing key, a wrong type or an id
// past the vocabulary is an error that names the key.
Result<GgufVocabulary> read_gguf_vocabulary(const json::object& metadata);

}  // namespace pome::text
