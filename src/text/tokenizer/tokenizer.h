#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer/gguf_vocabulary.h"

struct PomeTokenizer;  // bridge/pome_bridge.h

namespace pome::text {

// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

struct EncodeOptions {
  // BOS and EOS as the model wants them around a raw prompt. A BOS that the text already begins
  // with is never doubled. Leave it off for a rendered chat: the template writes its own.
  bool add_special = false;
  // Off: "<|im_end|>" in the text is ordinary text and no control token comes out of it.
  bool parse_special = true;
  // With parse_special: parts that are ordinary text all the same (what a user wrote inside a
  // rendered chat). Ascending, not overlapping.
  std::span<const TextSpan> literal = {};
};

struct DecodeOptions {
  bool skip_special = true;
  // The ids go on after other text, so the space that SentencePiece puts before a first word stays.
  bool continues_text = false;
};

// How one token appears in the decoded bytes, whatever stands beside it.
struct PieceBytes {
  enum class Kind {
    text,           // a maximal invalid UTF-8 sequence is shown as one U+FFFD
    byte_fallback,  // each byte that makes no character is shown as one U+FFFD
    none,           // the id has no token
  };
  std::string bytes;
  Kind kind = Kind::none;
};

// Text to token ids and back, equal to the model's Hugging Face tokenizer. Immutable: any number of
// threads may use one at once; share it, it is large. Copies share.
class Tokenizer {
 public:
  // `tokenizer_json`: the file's text. `tokenizer_config` (may be null) names BOS, EOS, PAD and
  // whether BOS is added.
  static Result<Tokenizer> from_hf(std::string_view tokenizer_json,
                                   const json::object* tokenizer_config);
  // The texts of vocab.json and merges.txt, of a byte-level BPE tokenizer whose tokenizer.json is
  // not there. The configuration's tokenizer_class must be one that is known. Where it has no
  // added_tokens_decoder, added_tokens.json (empty: there is none) lists what vocab.json lacks.
  static Result<Tokenizer> from_bpe_files(std::string_view vocab_json, std::string_view merges,
                                          const json::object& tokenizer_config,
                                          std::string_view added_tokens_json = {});
  // From GGUF metadata; an unknown pre-tokenizer is an error that names the known ones.
  static Result<Tokenizer> from_gguf(const GgufVocabulary& vocabulary);

  // Refuses text that is not UTF-8, naming the byte.
  Result<std::vector<Token>> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Ids without a token stand for nothing. Always valid UTF-8: bytes that make no character become
  // U+FFFD.
  std::string decode(std::span<const Token> tokens, const DecodeOptions& options = {}) const;

  // One past the largest id; the model's logits may be wider.
  int32_t vocab_tokens() const;
  std::optional<Token> token_id(std::string_view piece) const;
  // As the vocabulary writes it ("Ġhello", "▁hello", "<|im_end|>").
  std::optional<std::string> piece(Token token) const;
  // As it appears in text (" hello"); may be a part of a character.
  PieceBytes piece_bytes(Token token) const;
  // Control tokens: left out by skip_special, made by parse_special.
  bool is_special(Token token) const;
  // Their texts, for ChatTemplate to keep users from writing them.
  const std::vector<std::string>& special_texts() const;

  std::optional<Token> bos() const;
  std::optional<Token> eos() const;
  std::optional<Token> pad() const;
  std::optional<Token> unknown() const;
  bool adds_bos() const;
  // How many spaces decoding drops at the very start of a text (Llama 2: 1).
  size_t stripped_spaces() const;

  // For what the bridge makes of it.
  const PomeTokenizer* handle() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  static Result<Tokenizer> finish(std::shared_ptr<State> state);
  static Result<Tokenizer> finish_hf(std::shared_ptr<State> state, const json::object& config);

  std::shared_ptr<const State> state_;
};

}  // namespace pome::text
